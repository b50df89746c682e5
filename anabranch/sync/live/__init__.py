"""Links on asyncio and gRPC. They carry values, and decide nothing.

Reading order:

- `carrier`: messages over gRPC.
- `manager`: links, which carry values between the driver and the carrier.
"""
