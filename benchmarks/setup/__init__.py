"""Fetches what we are measured against: `python -m benchmarks.setup`.

Each peer is a `Peer` in a module here, and named in `__main__`. All lie in `.bench/`, apart from the product and its
dependencies, in exactly the versions that are pinned here: in files of requirements, and in Storm's `pom.xml`.
"""
