"""As much of psycopg2 as the loads of PostgreSQL use, by the simple query protocol, for a server that asks for no password.

Arguments are written into the statement, as psycopg2 does; only numbers are. A transaction begins by itself without autocommit.
"""

import socket
import struct


class Error(Exception):
    """What the server refused."""


class Connection:
    def __init__(self, host, port, user, dbname):
        self.autocommit, self._open = False, False
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._from = self._socket.makefile("rb")
        names = b"".join(word.encode() + b"\0" for word in ("user", user, "database", dbname)) + b"\0"
        self._socket.sendall(struct.pack("!II", len(names) + 8, 196608) + names)
        self._answer()

    def _answer(self):
        """The rows until the server is ready again."""
        rows, refused = [], None
        while True:
            kind, length = struct.unpack("!cI", self._from.read(5))
            body = self._from.read(length - 4)
            if kind == b"E":
                refused = body.decode(errors="replace")
            elif kind == b"D":
                row, at = [], 2
                for _ in range(struct.unpack("!H", body[:2])[0]):
                    (size,) = struct.unpack("!i", body[at : at + 4])
                    row.append(None if size < 0 else body[at + 4 : at + 4 + size].decode())
                    at += 4 + max(size, 0)
                rows.append(tuple(row))
            elif kind == b"Z":
                if refused:
                    raise Error(refused)
                return rows

    def ask(self, statement):
        text = statement.encode() + b"\0"
        self._socket.sendall(b"Q" + struct.pack("!I", len(text) + 4) + text)
        return self._answer()

    def cursor(self):
        return Cursor(self)

    def begin(self):
        if not self.autocommit and not self._open:
            self.ask("begin")
            self._open = True

    def commit(self):
        self.ask("commit")
        self._open = False


class Cursor:
    def __init__(self, connection):
        self._connection, self._rows = connection, []

    def execute(self, statement, arguments=()):
        self._connection.begin()
        self._rows = self._connection.ask(statement % tuple(map(int, arguments)) if arguments else statement)

    def fetchone(self):
        return self._rows[0]

    def fetchall(self):
        return self._rows


def connect(**where):
    return Connection(**where)
