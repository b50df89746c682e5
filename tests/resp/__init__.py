"""Tests of the RESP parser and encoder.

Reading order:

- `reference`: a naive request parser, as an oracle.
- `streams`: strategies for the bytes that clients send.
- `test_parser`: the request parser.
- `test_parser_oracle`: the request parser, compared with redis-server.
- `test_encoder`: the reply encoder.
"""
