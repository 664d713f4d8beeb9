"""What a compile child takes of what no limit counts, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from codasmith.templates import sandbox, watch


@pytest.fixture
def child(tmp_path):
    """A process that runs `code` in the folder, in a child of its own as a job has one, and then waits; its pidfd."""
    started = []

    def run(code):
        script = f"import os, sys, time\nif os.fork() == 0:\n    {code}\n    print('done', flush=True)\ntime.sleep(60)"
        process = subprocess.Popen(
            [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout.readline() == b"done\n"
        started.append((process, os.pidfd_open(process.pid)))
        return started[-1][1]

    yield run
    for process, pidfd in started:
        os.killpg(process.pid, 9)
        process.communicate()
        os.close(pidfd)


def deep(folder, levels, name="d"):
    """A chain of folders longer than any path may be."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def test_an_ordinary_folder_and_process_are_not_too_much(tmp_path, child):
    (tmp_path / "kernel.o").write_bytes(b"x" * 4096)
    (tmp_path / "sub").mkdir()
    assert watch.excess(tmp_path) == "" == watch.excess(tmp_path, child("time.time()"))
    assert watch.excess(tmp_path / "gone") == ""


def test_bytes_are_counted_in_folders_below_and_behind_no_link(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "FOLDER", 2**20)
    (tmp_path / "one" / "two").mkdir(parents=True)
    (tmp_path / "one" / "two" / "large").write_bytes(b"x" * 3 * 2**20)
    assert watch.excess(tmp_path) == "it wrote more than 1 MiB of files"
    other = tmp_path / "other"
    other.mkdir()
    (other / "link").symlink_to(tmp_path / "one")
    assert watch.excess(other) == ""


def test_many_empty_files_are_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "ENTRIES", 50)
    for number in range(51):
        (tmp_path / str(number)).touch()
    assert watch.excess(tmp_path) == "it made more than 50 files"


@pytest.mark.parametrize(("levels", "name"), [(1500, "d"), (3000, "d"), (20, "n" * 255)])
def test_folders_that_are_too_deep_are_noticed_or_counted_and_always_removed(tmp_path, levels, name):
    folder = tmp_path / "scratch"
    folder.mkdir()
    deep(folder, levels, name)
    assert ("cannot be counted" in watch.excess(folder)) == (levels * (len(name) + 1) > 4000)
    watch.remove(folder)
    assert not folder.exists()


def test_what_takes_more_descriptors_than_there_are_is_removed(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    deep(folder, 400)
    script = (
        "import pathlib, resource, sys; from codasmith.templates import watch; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); watch.remove(pathlib.Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", script, str(folder)], check=True, timeout=60)
    assert not folder.exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root needs no right to a folder")
def test_what_may_not_be_listed_is_removed(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    (folder / "closed").mkdir()
    (folder / "closed" / "file").touch()
    (folder / "closed").chmod(0o300)
    watch.remove(folder)
    assert not folder.exists()


def test_what_has_no_name_any_more_is_counted_while_it_is_held_open(tmp_path, child, monkeypatch):
    monkeypatch.setattr(sandbox, "FOLDER", 2**20)
    pidfd = child("f = open('x', 'wb'); f.write(b'x' * (3 << 20)); f.flush(); os.unlink('x')")
    assert watch.excess(tmp_path) == ""
    assert watch.excess(tmp_path, pidfd) == "it wrote more than 1 MiB of files"


def test_what_is_only_mapped_any_more_counts_as_the_largest_file_that_may_be(tmp_path, child, monkeypatch):
    monkeypatch.setattr(sandbox, "FOLDER", 2 * sandbox.FILE - 1)
    one = (
        "import mmap; open('{0}', 'wb').write(bytes(4096)); f = open('{0}', 'r+b'); "
        "m{0} = mmap.mmap(f.fileno(), 4096); f.close(); os.unlink('{0}')"
    )
    assert watch.excess(tmp_path, child(one.format(1))) == ""
    both = child("; ".join((one.format(1), one.format(2))))
    assert "MiB of files" in watch.excess(tmp_path, both)
    (tmp_path / "cache").symlink_to(tmp_path)
    assert "MiB of files" in watch.excess(tmp_path / "cache", both), "the kernel names it without links"


def test_threads_are_counted_in_all_that_a_job_has_started(tmp_path, child, monkeypatch):
    monkeypatch.setattr(watch, "THREADS", 20)
    pidfd = child("import _thread; [_thread.start_new_thread(time.sleep, (60,)) for _ in range(30)]")
    deadline = time.monotonic() + 5
    while not watch.excess(tmp_path, pidfd) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert watch.excess(tmp_path, pidfd) == "it started more than 20 threads"
