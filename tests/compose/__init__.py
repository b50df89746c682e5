"""The cluster of deploy/compose.yaml, really built and started. Only `make test-compose` runs it.

Reading order:

- `commands`: runs a program, and shows its output if it fails.
- `engine`: a Docker engine: the one that runs, or one that is started here and stopped at the end.
- `firewall`: takes back what a Docker engine leaves in the network of the machine.
- `images`: builds the images, and makes the base where none can be pulled.
- `project`: one compose project, its regions and its proxies.
- `conftest`: the fixtures.
- `test_cluster`: what an operator does with the cluster.
- `test_profiles`: the third-party images.
- `__main__`: says whether these tests can run here.
"""
