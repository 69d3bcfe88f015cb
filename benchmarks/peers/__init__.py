"""The work of the comparisons in other frameworks: the word count or the JSON pipeline, at least once.

Each is a program of its own, run by the interpreter of its own environment, and imports its command line only:

    python -m benchmarks.peers.NAME_peer SERVERS SOURCE SINK GROUP (--words DIRECTORY | --clicks DIRECTORY)

It reads SOURCE from its beginning as GROUP and works until SIGTERM, with the settings that the framework's
documentation or source recommends for throughput. No setting weakens the guarantee: offsets are committed after what
they cover was delivered. It does not measure itself.

The two programs of pystorm are its bolts, which Storm starts.
"""
