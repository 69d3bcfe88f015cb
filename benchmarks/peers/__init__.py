"""The same work in other people's frameworks: source topic → upper-case → sink topic, or a word count, at least once.

Each is a program of its own, run by the interpreter of its own environment, and imports its command line only:

    python -m benchmarks.peers.NAME_peer SERVERS SOURCE SINK GROUP [--tuned] [--words DIRECTORY]

It reads SOURCE from its beginning as GROUP and works until SIGTERM. Without `--tuned` it has the framework's own
settings; with it, what the framework's documentation or source recommends for throughput. No setting
weakens the guarantee: offsets are committed after what they cover was delivered. It does not measure itself.

The two programs of pystorm are its bolts, which Storm starts.
"""
