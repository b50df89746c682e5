"""What tests share: engines, free ports, a redis-server to compare with, a live cluster of region processes."""
