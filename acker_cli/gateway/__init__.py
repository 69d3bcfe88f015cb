"""`acker gateway`: messages over HTTP, with a `Client`.

- `app`: requests and responses.
- `guard`: access control.
- `server`: the thread with the client and the server; a stop waits for open requests.
"""
