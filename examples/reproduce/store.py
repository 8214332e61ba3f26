"""Results on disk: one JSON file per cell of the table, written after every run."""

import json
from pathlib import Path
from typing import Any

from examples.reproduce.config import METHODS
from examples.reproduce.tasks import Task


class Store:
    """The runs that are done; whatever was killed is simply not among them."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def cell(self, cell: str) -> list[dict[str, Any]]:
        """The runs of one cell of the table."""
        path = self.folder / f"{cell}.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else []

    def has(self, task: Task, settings: dict[str, Any]) -> bool:
        """True if a task is done with these settings."""
        runs = (run for run in self.cell(task.cell) if _is(run, task))
        return any(run.get("settings") == settings for run in runs)

    def add(self, task: Task, result: dict[str, Any]) -> None:
        """Keeps a result; the file is whole at every moment."""
        runs = [run for run in self.cell(task.cell) if not _is(run, task)]
        runs.append({**task._asdict(), **result})
        runs.sort(key=lambda run: (run["host"], run["way"], run["seed"]))
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{task.cell}.json"
        lines = ",\n".join(json.dumps(run) for run in runs)
        part = path.with_suffix(".part")
        part.write_text(f"[\n{lines}\n]\n", "utf-8")
        part.replace(path)

    def all(self) -> list[dict[str, Any]]:
        """The runs of all cells; other files of the folder are none of its business."""
        cells = sorted(path.stem for path in self.folder.glob("*-*.json"))
        known = [cell for cell in cells if cell.partition("-")[0] in METHODS]
        return [run for cell in known for run in self.cell(cell)]


def _is(run: dict[str, Any], task: Task) -> bool:
    return all(run[name] == value for name, value in task._asdict().items())
