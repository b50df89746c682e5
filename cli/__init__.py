"""The `anabranch` command.

Read in this order: `main` (the commands), `client` and `places` (how a running cluster is found and asked), `serve` and `up` (what starts
regions), `status`, `links`, `explain`, `diff`, `members` (what asks them), `scenario` and `bench` (thin calls into other packages).
"""
