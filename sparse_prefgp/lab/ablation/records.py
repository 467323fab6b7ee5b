"""The folder of a study: who it belongs to, one record per run, and the table of all results."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.disk.folders import check_place, contents, write_file
from sparse_prefgp.lab.ablation.checksums import source_sums
from sparse_prefgp.lab.ablation.configuration import Study
from sparse_prefgp.lab.ablation.execution import Record
from sparse_prefgp.lab.ablation.reference import Reference, read_reference
from sparse_prefgp.lab.ablation.runs import ReferenceKey, RunSettings
from sparse_prefgp.lab.layout import COLUMNS, CSV, FAILED, LAYOUT, PARQUET, REFERENCES, RUNS, STUDY
from sparse_prefgp.support.plain import plain

PROGRAM = "sparse-prefgp ablate"
WHOLE = ("inducing", "seed", "duels", "items")


class StudyFolder:
    """What a study has written so far, and where more goes; every file whole or not at all."""

    def __init__(self, folder: Path, study: Study) -> None:
        """Look at a folder, new, empty or of the same study; nothing is written before `claim`.

        :raises ValueError: it belongs to another study, holds other things, or cannot be written.
        """
        self.folder, self.study = folder, study
        self.sums = source_sums(study.data)
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"The output {str(folder)!r} is a file; give a folder.")
        check_place(Path(os.path.realpath(folder)), folder)
        if (folder / STUDY).exists():
            self._check_ours()
        elif contents(folder):
            raise ValueError(
                f"The output folder {str(folder)!r} has files that {PROGRAM} did not write; give a "
                "new or empty folder."
            )

    def finished(self, runs: Iterable[RunSettings]) -> dict[str, Record]:
        """The records that are there, by the name of their run.

        :raises ValueError: one that cannot be read.
        """
        found = {}
        for run in runs:
            path = self._record(run.name)
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                if record["name"] != run.name or record["status"] not in ("done", FAILED):
                    raise ValueError
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError):
                raise ValueError(
                    f"The record {str(path)!r} is damaged; remove that file, and its run is done "
                    "again."
                ) from None
            found[run.name] = record
        return found

    def keep(self, record: Record) -> None:
        """Write the record of a run, with the checksums of the files that it is of."""
        text = json.dumps(plain({**record, "sources": self.sums}, str), indent=1, allow_nan=False)
        write_file(self._record(record["name"]), text + "\n")

    def reference(self, key: ReferenceKey) -> Reference | None:
        """The exact model, if it is there.

        :raises ValueError: a damaged file.
        """
        return read_reference(self._reference(key))

    def keep_reference(self, reference: Reference) -> None:
        """Keep an exact model; one that could not be made is tried again another time."""
        if not reference.reason:
            write_file(self._reference(reference.key), reference.to_bytes())

    def write_tables(self, records: Sequence[Record]) -> None:
        """All results in long form, as Parquet and CSV, in the order of the records."""
        frame = results_frame(records)
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        write_file(self.folder / PARQUET, buffer.getvalue())
        write_file(self.folder / CSV, frame.to_csv(index=False))

    def _record(self, name: str) -> Path:
        return self.folder / RUNS / f"{name}.json"

    def _reference(self, key: ReferenceKey) -> Path:
        return self.folder / REFERENCES / f"{key.name}.npz"

    def claim(self) -> None:
        """Make the folder that of the study; nothing where it is already.

        :raises ValueError: it cannot be made.
        """
        if (self.folder / STUDY).exists():
            return
        study = self.study
        text = json.dumps(
            {
                "program": PROGRAM,
                "layout": LAYOUT,
                "name": study.name,
                "title": study.title,
                "fingerprint": study.fingerprint(),
                "sources": self.sums,
                "configuration": study.resolved(),
            },
            indent=1,
        )
        try:
            write_file(self.folder / STUDY, text + "\n")
        except OSError as error:
            raise ValueError(
                f"The output folder {str(self.folder)!r} cannot be made ({error.strerror}); give "
                "another place."
            ) from None

    def _check_ours(self) -> None:
        path = self.folder / STUDY
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            layout, fingerprint = values["layout"], values["fingerprint"]
            configuration = dict(values["configuration"])
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(
                f"{str(path)!r} is damaged or of another program; give another folder."
            ) from None
        if layout != LAYOUT:
            raise ValueError(
                f"{str(path)!r} has layout {layout!r} and this version writes {LAYOUT}; give "
                "another folder, or use the version that wrote it."
            )
        if fingerprint == self.study.fingerprint():
            return
        what = self._difference(configuration, values.get("sources"))
        raise ValueError(
            f"The output folder {str(self.folder)!r} belongs to another study, "
            f"{values.get('name')!r} with {what}; give another folder, or the configuration that "
            "it was made with."
        )

    def _difference(self, configuration: dict[str, Any], sums: Any) -> str:
        """In what the study of the folder differs from this one."""
        here = self.study.resolved()
        kept = sums if isinstance(sums, dict) else {}
        others = [
            name
            for name, value in here.items()
            if name != "title" and configuration.get(name) != value
        ]
        if others:
            return f"another {others[0]!r}"
        if kept and kept != self.sums:
            changed = sorted(
                name for name in {*kept, *self.sums} if kept.get(name) != self.sums.get(name)
            )
            return f"other contents of {', '.join(changed)}"
        return "other files, or runs of another version of this program"


def results_frame(records: Sequence[Record]) -> Any:
    """A data frame in long form: one row per run and metric; one for a failed run."""
    pd = require_pandas()
    rows = []
    for record in records:
        settings = record["settings"]
        common = {name: settings[name] for name in COLUMNS if name in settings}
        common |= {name: record[name] for name in ("study", "duels", "items", "status", "reason")}
        common["run"] = record["name"]
        nothing = {"name": "", "group": "", "value": math.nan, "unit": "", "direction": ""}
        for metric in record["metrics"] or [nothing]:
            named = {"metric" if key == "name" else key: value for key, value in metric.items()}
            rows.append({**common, **named, "value": float(named["value"])})
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({**dict.fromkeys(WHOLE, "Int64"), "value": "float64"})
