"""One HTTP request, byte by byte, and one answer: the part of HTTP/1.1 that probes and scrapers use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

from nodeprep.values import Value

HEAD_LIMIT_BYTES = 8192  # bytes of a request's first line and headers; Prometheus sends 300, the kubelet 150
END = b"\r\n\r\n"
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


class PageAnswer(Value):
    """An answer: its status, content type and body."""

    status: HTTPStatus
    content_type: str = TEXT
    body: bytes = b""


def text_answer(status: HTTPStatus, line: str) -> PageAnswer:
    """An answer of one line."""
    return PageAnswer(status, TEXT, f"{line}\n".encode("utf-8", "backslashreplace"))


# What a path does, by method: GET for pages, POST for changes.
Routes = Mapping[str, Mapping[str, Callable[[], PageAnswer]]]


def response(head: bytes, routes: Routes) -> bytes:
    """The whole response to a request. `head` is the request up to its empty line, or as far as the limit."""
    if END not in head:
        return _response(
            text_answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {HEAD_LIMIT_BYTES} bytes of headers")
        )
    line, _, headers = head.partition(END)[0].decode("latin-1").partition("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        return _response(text_answer(HTTPStatus.BAD_REQUEST, "this is no request in HTTP/1.1"))
    method, path = words[0], words[1].partition("?")[0]
    known = routes.get(path)
    if known is None:
        return _response(
            text_answer(HTTPStatus.NOT_FOUND, f"there are {', '.join(sorted(routes))}"), bare=method == "HEAD"
        )
    act = known.get("GET" if method == "HEAD" else method)
    if act is None:
        methods = ", ".join((*known, "HEAD") if "GET" in known else known)
        return _response(text_answer(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} takes {methods}"), f"Allow: {methods}\r\n")
    if _has_body(headers):
        return _response(text_answer(HTTPStatus.BAD_REQUEST, f"{path} takes no body"))
    return _response(_answer(act, path), bare=method == "HEAD")


def _answer(act: Callable[[], PageAnswer], path: str) -> PageAnswer:
    try:
        return act()
    except Exception as error:  # noqa: BLE001 - the boundary: a page that breaks must not end the server
        return text_answer(
            HTTPStatus.INTERNAL_SERVER_ERROR, f"{path} broke: {type(error).__name__}: {error}; please report it"
        )


def _has_body(headers: str) -> bool:
    fields = (line.partition(":") for line in headers.lower().split("\r\n"))
    values = {name.strip(): value.strip() for name, _, value in fields}
    return "transfer-encoding" in values or values.get("content-length", "0") != "0"


def _response(answer: PageAnswer, more: str = "", *, bare: bool = False) -> bytes:
    """The bytes of an answer. `bare` leaves the body out, as HEAD wants it.

    Each connection serves one request: a scrape every 15 s needs no more.
    """
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if bare else answer.body)
