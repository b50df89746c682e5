"""Real regions under real faults, and toxiproxy, which makes some of these faults.

Reading order:

- `toxiproxy`: the API of a toxiproxy server.
- `toxiproxy_server`: the server as a process.
"""
