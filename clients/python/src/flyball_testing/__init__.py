"""A Kubernetes cluster for tests, with a clock that the test moves.

It is a process of the program ``flyball`` (``$FLYBALL_BIN``, or ``flyball`` of ``PATH``), driven by lines of JSON.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import threading
import time
from typing import Any, Callable, Optional, Sequence

__all__ = ["Cluster", "ClusterError", "Unmet"]

_TICK = 0.05


class ClusterError(Exception):
    """The cluster could not start, or refused a request."""


class Unmet(AssertionError):
    """An object did not become what the test expects; the text says why it is as it is."""


class Cluster:
    """A cluster. It ends with :meth:`stop`, at the end of a ``with`` block, or with this process."""

    def __init__(
        self,
        *,
        nodes: int = 3,
        controllers: Optional[Sequence[str]] = None,
        starting_at: Optional[str] = None,
        manager_flags: Sequence[str] = (),
        binary: Optional[str] = None,
    ) -> None:
        """Starts a cluster; its nodes are ready when this returns.

        :param controllers: as ``--controllers`` of kube-controller-manager; all by default.
        :param starting_at: what the clock shows first, such as ``2026-03-01T12:00:00Z``; the last full hour by default.
        """
        binary = binary or os.environ.get("FLYBALL_BIN") or "flyball"
        command = [binary, "up", "--control", "stdio", "--nodes", str(nodes)]
        if controllers is not None:
            command.append("--controllers=" + ",".join(controllers))
        if starting_at is not None:
            command += ["--starting-at", starting_at]
        if manager_flags:
            command += ["--", *manager_flags]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
            )
        except OSError as error:
            raise ClusterError(f"cannot run {binary}: {error}; set FLYBALL_BIN to the program") from error
        self._lock = threading.Lock()
        try:
            ready = self._read()["ready"]
        except BaseException:
            self._kill()
            raise
        self.server: str = ready["server"]
        self.kubeconfig: str = ready["kubeconfig"]
        with open(self.kubeconfig, encoding="utf-8") as file:
            self.config: dict = json.load(file)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def now(self) -> datetime.datetime:
        """What the cluster's clock shows."""
        return _time(self._ask({"do": "now"})["now"])

    def advance(self, **by: float) -> datetime.datetime:
        """Moves the clock, as in ``advance(hours=1)``; the units are those of :class:`datetime.timedelta`."""
        seconds = datetime.timedelta(**by).total_seconds()
        return _time(self._ask({"do": "advance", "seconds": seconds})["now"])

    def settled(self) -> datetime.datetime:
        """Waits until the cluster has no work."""
        return _time(self._ask({"do": "settled"})["now"])

    def apply(self, manifests: Any) -> list:
        """Applies YAML, JSON or a dictionary; returns what the server made of each object."""
        return self._ask({"do": "apply", "manifests": manifests})

    def get(self, kind: str, name: str) -> Optional[dict]:
        """An object, or ``None``. The name is ``name``, in the namespace ``default``, or ``namespace/name``."""
        return self._ask({"do": "get", "kind": kind, "name": name})

    def delete(self, kind: str, name: str) -> bool:
        """Deletes an object and what it owns; whether it existed."""
        return self._ask({"do": "delete", "kind": kind, "name": name})

    def why(self, kind: str, name: str) -> str:
        """Why an object is as it is."""
        return self._ask({"do": "why", "kind": kind, "name": name})

    def until(self, kind: str, name: str, holds: Callable[[Any], Any], patience: float = 10.0) -> Any:
        """Waits until an object (``None`` if there is none) is as ``holds`` says, and returns it.

        The cluster's own work needs no waiting; ``patience``, in real seconds, is for what an operator beside it does.
        """
        deadline = time.monotonic() + patience
        while True:
            self.settled()
            found = self.get(kind, name)
            if holds(found):
                return found
            if time.monotonic() >= deadline:
                break
            time.sleep(_TICK)
        try:
            why = self.why(kind, name)
        except ClusterError as error:
            why = str(error)
        raise Unmet(f"{kind} {name} is not as the test expects\n\n{why}\n{json.dumps(found, indent=2)}")

    def stop(self) -> None:
        """Ends the cluster. A second call does nothing."""
        if self._process.poll() is None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
                self._process.wait(timeout=30)
            except (OSError, subprocess.TimeoutExpired):
                pass
        self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()
            except OSError:
                pass

    def _ask(self, request: dict) -> Any:
        with self._lock:
            if self._process.stdin.closed:
                raise ClusterError("the cluster has stopped")
            try:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
            except OSError as error:
                raise ClusterError(f"the cluster has ended: {error}") from error
            answer = self._read()
        if "error" in answer:
            raise ClusterError(answer["error"])
        return answer["ok"]

    def _read(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise ClusterError(f"flyball ended with code {code}; its stderr says why")
        return json.loads(line)


def _time(text: str) -> datetime.datetime:
    # Python before 3.11 reads neither "Z" nor nanoseconds.
    whole, _, fraction = text.rstrip("Z").partition(".")
    moment = datetime.datetime.fromisoformat(whole + "+00:00")
    return moment.replace(microsecond=int((fraction + "000000")[:6]))
