"""The images: files that are right, wrong or absent, and a server that may be all of these."""

import hashlib
import http.server
import io
import threading

import numpy as np
import pooch
import pytest
import scipy.io

from mmlp.datasets import FREY_SHAPE, digits, frey_faces, images

NAME = "frey_rawface.mat"


def mat(pixels, name="ff", **options):
    file = io.BytesIO()
    scipy.io.savemat(file, {name: pixels.T}, **options)
    return file.getvalue()


@pytest.fixture
def faces(monkeypatch):
    """Stand-ins for the faces, which are not ours to ship, known by their checksum."""
    pixels = np.random.default_rng(0).integers(0, 256, (1965, 560), dtype=np.uint8)
    monkeypatch.setattr(
        images, "FREY_SHA256", hashlib.sha256(pixels.tobytes()).hexdigest()
    )
    monkeypatch.delenv("MMLP_DATA", raising=False)
    return pixels


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests += 1
        status, length, content = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server whose `answer` is (status, claimed length, content); the user's cache is empty."""
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests = 0
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        thread.start()
        monkeypatch.setattr(
            images, "FREY_URL", f"http://127.0.0.1:{server.server_port}/{NAME}"
        )
        monkeypatch.setattr(
            pooch, "os_cache", lambda project: tmp_path / "cache" / project
        )
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
        server.shutdown()
        thread.join()


def give(server, content, status=200):
    server.answer = status, len(content), content


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# -- local files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("as_file", [True, False])
def test_a_file_or_its_folder_gives_the_faces(faces, tmp_path, as_file):
    path = tmp_path / NAME
    path.write_bytes(mat(faces))
    found = frey_faces(path if as_file else str(tmp_path))
    assert found.dtype == np.uint8
    assert found.flags["C_CONTIGUOUS"]
    assert found.shape[1] == FREY_SHAPE[0] * FREY_SHAPE[1]
    np.testing.assert_array_equal(found, faces)


def test_the_argument_goes_before_the_environment_and_that_before_the_cache(
    faces, server, tmp_path, monkeypatch
):
    folders = [
        tmp_path / name for name in ("argument", "environment", "cache/matrix-mlp")
    ]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / NAME).write_bytes(b"bad: " + folder.name.encode())
    with pytest.raises(ValueError, match=r"cache/matrix-mlp/frey_rawface.mat is not"):
        frey_faces()
    monkeypatch.setenv("MMLP_DATA", str(folders[1]))
    with pytest.raises(ValueError, match=r"environment/frey_rawface.mat is not"):
        frey_faces()
    with pytest.raises(ValueError, match=r"argument/frey_rawface.mat is not"):
        frey_faces(folders[0])
    assert server.requests == 0  # a file that is there is never replaced


def test_another_container_is_fine_but_not_another_array(faces, tmp_path):
    path = tmp_path / NAME
    path.write_bytes(mat(faces, do_compression=True))
    np.testing.assert_array_equal(frey_faces(path), faces)
    path.write_bytes(mat(faces, format="4"))
    np.testing.assert_array_equal(frey_faces(path), faces)
    changed = faces.copy()
    changed[7, 5] ^= 1
    for other in (changed, faces[::-1], faces.T, faces.astype(float), faces[:-1]):
        path.write_bytes(mat(other))
        with pytest.raises(
            ValueError, match=f"{NAME} does not hold the Frey faces.*delete it"
        ):
            frey_faces(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>moved</html>" * 20, b"\x89HDF\r\n\x1a\n" + bytes(600), None],
)
def test_a_file_of_another_kind_is_refused(faces, tmp_path, content):
    path = tmp_path / NAME
    path.write_bytes(mat(faces, name="faces") if content is None else content)
    with pytest.raises(ValueError, match="is not a MATLAB file with a matrix `ff`"):
        frey_faces(path)


def test_a_cut_file_is_refused(faces, tmp_path):
    content = mat(faces)
    path = tmp_path / NAME
    for length in (50, 127, 128, 150, 200, len(content) // 2, len(content) - 8):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=NAME):
            frey_faces(path)


def test_a_place_that_does_not_exist_is_named(faces, tmp_path, monkeypatch):
    with pytest.raises(
        ValueError,
        match=r"`frey_faces\(data=...\)` must name a folder or a file that exists, got .*nowhere",
    ):
        frey_faces(tmp_path / "nowhere")
    monkeypatch.setenv("MMLP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="MMLP_DATA must name a folder"):
        frey_faces()


# -- the download ----------------------------------------------------------------------------------


def test_a_download_is_checked_and_kept(faces, server, tmp_path):
    give(server, mat(faces))
    np.testing.assert_array_equal(frey_faces(), faces)
    np.testing.assert_array_equal(frey_faces(), faces)
    assert server.requests == 1
    assert files(tmp_path / "cache") == [NAME]


def test_a_folder_that_lacks_the_file_receives_it(faces, server, tmp_path):
    (tmp_path / "mine").mkdir()
    give(server, mat(faces))
    np.testing.assert_array_equal(frey_faces(tmp_path / "mine"), faces)
    assert files(tmp_path) == [NAME]


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((200, 9, b"not faces"), ValueError, "is not a MATLAB file"),
        ((404, 4, b"gone"), OSError, "could not download .*404"),
        ((500, 0, b""), OSError, "could not download .*500"),
        ((200, 10**6, b"too short"), OSError, "could not download"),
    ],
    ids=["wrong bytes", "404", "500", "truncated"],
)
def test_a_bad_answer_leaves_nothing_and_says_what_to_do(
    faces, server, tmp_path, answer, error, message
):
    server.answer = answer
    with pytest.raises(error, match=message) as caught:
        frey_faces()
    path = tmp_path / "cache" / "matrix-mlp" / NAME
    assert f"Get the file from {images.FREY_URL} and put it at {path}" in str(
        caught.value
    )
    assert "MMLP_DATA" in str(caught.value)
    assert files(tmp_path) == []
    give(server, mat(faces))
    np.testing.assert_array_equal(frey_faces(), faces)  # and the next call works


def test_a_download_of_other_pixels_is_not_kept(faces, server, tmp_path):
    give(server, mat(faces[::-1]))
    with pytest.raises(ValueError, match="does not hold the Frey faces"):
        frey_faces()
    assert files(tmp_path) == []


def test_without_a_network_the_error_names_the_address_and_the_place(
    faces, server, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        images, "FREY_URL", f"http://127.0.0.1:1/{NAME}"
    )  # nobody listens there
    with pytest.raises(OSError, match="could not download") as caught:
        frey_faces()
    assert (
        f"Get the file from http://127.0.0.1:1/{NAME} and put it at {tmp_path}"
        in str(caught.value)
    )


def test_a_cache_that_cannot_be_written_is_found_before_the_download(
    faces, server, tmp_path
):
    (tmp_path / "cache").write_text("a file where the folder should be")
    give(server, mat(faces))
    with pytest.raises(OSError, match=r"could not write to .*cache.*MMLP_DATA"):
        frey_faces()
    assert server.requests == 0


# -- digits ----------------------------------------------------------------------------------------


def test_digits_need_no_file():
    pixels, shape = digits()
    assert pixels.shape == (1797, shape[0] * shape[1])
    assert pixels.dtype == np.uint8
    assert (pixels.min(), pixels.max()) == (0, 16)
