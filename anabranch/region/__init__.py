"""One region: a deterministic engine, the driver around it, and the parts that perform its work.

The engine makes all decisions about data. The driver decides, without I/O, in which order the
region commits, replies and ships. The live parts perform that on asyncio, as `sim.world` does on
virtual time.

Reading order:

- `engine`: deterministic decisions about data, commands in, replies and effects out.
- `storage`: database rows and SQL, without I/O.
- `resp`: the client protocol, requests in, encoded replies out.
- `driver`: the order of a region's work, as values.
- `environment`: variables that set options, that are foreign, and that are mistakes.
- `option_values`: what the value of an option means: addresses, members, names.
- `password_file`: a file whose first line is a password.
- `address_checks`: addresses that cannot be the same, or that need TLS.
- `config`: the configuration from flags, environment and TOML file.
- `live`: the process, the server, the database and the files of a running region.
"""
