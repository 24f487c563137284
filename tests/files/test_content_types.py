"""A file whose content shows another type than it declares is found."""

from __future__ import annotations

import time

import pytest

from alula.files._content_types import is_allowed, is_content_type, mismatch

PDF, ZIP, ELF, EXE = b"%PDF-1.7", b"PK\x03\x04xx", b"\x7fELF\x02", b"MZ\x90\x00\x03"
MP4, AVIF, HEIC = (b"\x00\x00\x00\x20ftyp" + brand for brand in (b"isom", b"avif", b"heic"))
SVG, HTML = b"<svg xmlns='x'>", b"<!DOCTYPE html>\n<html>"
LONG_SVG = (
    b"\xef\xbb\xbf <?xml version='1.0'?>\n<!-- by hand -->\n<!DOCTYPE svg PUBLIC 'x'>\n<SVG >"
)
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

FITTING = [
    *[("image/png", b"\x89PNG\r\n\x1a\nx"), ("image/jpeg", b"\xff\xd8\xff\xe0")],
    *[("image/gif", b"GIF89a"), ("image/webp", b"RIFF\0\0\0\0WEBPVP8 "), ("image/avif", AVIF)],
    *[("image/heic", HEIC), ("image/tiff", b"II*\0"), ("video/mp4", MP4), ("audio/mp4", MP4)],
    *[("video/quicktime", b"\0\0\0\x08wide"), ("video/webm", b"\x1aE\xdf\xa3")],
    *[("audio/wav", b"RIFF\0\0\0\0WAVE"), ("audio/ogg", b"OggS"), ("audio/flac", b"fLaC")],
    *[("audio/mpeg", b"ID3\x03"), ("audio/mpeg", b"\xff\xfb\x90"), ("application/pdf", PDF)],
    *[("application/zip", ZIP), (WORD, ZIP), ("application/gzip", b"\x1f\x8b\x08")],
    *[("application/x-msdownload", EXE), ("application/x-elf", ELF)],
    *[("image/svg+xml", SVG), ("image/svg+xml", LONG_SVG), ("text/xml", SVG)],
    *[("text/html", HTML), ("text/html", b"<p>a fragment"), ("application/xhtml+xml", HTML)],
    *[("text/plain", b"plain"), ("text/plain", b""), ("text/csv", b"a,b"), ("text/plain", b"MZ")],
    *[("application/json", b"{}"), ("text/markdown", b"<p align='center'>")],
    # archives have many names, and an unknown type claims nothing
    *[("application/vnd.oasis.opendocument.text", ZIP), ("application/x-custom", b"\x1f\x8b")],
    *[("application/octet-stream", content) for content in (PDF, HTML, SVG, EXE, b"")],
    ("application/x-sharedlib", ELF),
]
LYING = [
    *[("image/png", content) for content in (b"", b"\x89PN", HTML, SVG, PDF, b"GIF89a", b"plain")],
    *[("image/gif", b"GIF88a"), ("image/webp", b"RIFF\0\0\0\0WAVE"), ("image/avif", HEIC)],
    *[("video/mp4", AVIF), ("image/heic", MP4), ("application/pdf", b"x%PDF-"), (WORD, PDF)],
    *[("application/zip", EXE), ("audio/mpeg", b"plain"), ("image/svg+xml", HTML)],
    *[("text/plain", content) for content in (HTML, SVG, LONG_SVG, PDF, EXE, ELF, MP4)],
    *[("text/csv", b"  <script>"), ("application/json", b"<!-- x --><html lang=x>")],
    *[("text/plain", b"<IFRAME src=x>"), ("application/x-custom", EXE), ("text/css", HTML)],
]


@pytest.mark.parametrize(("content_type", "head"), FITTING)
def test_what_fits(content_type, head):
    assert not mismatch(content_type, head)


@pytest.mark.parametrize(("content_type", "head"), LYING)
def test_what_does_not(content_type, head):
    assert mismatch(content_type, head)


@pytest.mark.parametrize(
    "head",
    [b"<!---->" * 73, b"<?xml?>" * 73, b"<!-- --> <?xml ?>" * 30, b"<!--" * 128, b" " * 512],
)
def test_no_head_keeps_the_patterns_busy(head):
    began = time.thread_time()
    assert not mismatch("text/plain", head[:512])
    assert time.thread_time() - began < 0.1


@pytest.mark.parametrize("text", ["text/plain", "application/vnd.a+b", "x/1", "a/b.c_d-e"])
def test_content_types(text):
    assert is_content_type(text)


@pytest.mark.parametrize(
    "text", ["", "text", "text/", "/plain", "Text/plain", "text/plain; x", "a/b/c", "a/b\n", "*/*"]
)
def test_what_is_not_one(text):
    assert not is_content_type(text)


def test_lists_of_types():
    assert is_allowed("image/png", {"image/png"})
    assert is_allowed("image/png", {"image/*"})
    assert not is_allowed("image/png", {"image/gif", "text/*", "*"})
