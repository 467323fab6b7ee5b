"""Tables of choices, rankings, and best and worst as long ones: a row for each alternative."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.flags import YES_AND_NO
from sparse_prefgp.data.read_as import ReadAs
from sparse_prefgp.io.answers import Sets, begin
from sparse_prefgp.io.files import ITEM_ID, Table, are_flags, id_text, ids_of, refuse_control
from sparse_prefgp.io.header import QUESTIONS, Header, labelled
from sparse_prefgp.io.ids import WHOLE_NUMBER, Ids, is_zero
from sparse_prefgp.support.arrays import BoolArray, IntArray, Texts, first_true
from sparse_prefgp.support.words import (
    agreeing,
    and_so,
    counted,
    grouped,
    listing,
    shortened,
    spelt_like,
    squeezed,
)

if TYPE_CHECKING:
    from sparse_prefgp.io.forms import Stated

CHOICE_SET, CHOSEN, BEST, WORST = "choice_set", "chosen", "best", "worst"
RANKING, RANK, BEST_AND_WORST = "ranking", "rank", "best_worst"
# What an answer of each kind is called, and the columns that say which option was taken.
ANSWERS = {
    "choices": ("choice", (CHOSEN,)),
    "best_worst": ("answer", (BEST, WORST)),
    "rankings": ("ranking", ()),
}
NAMES = (CHOICE_SET, ITEM_ID, CHOSEN, BEST, WORST, RANKING, RANK, BEST_AND_WORST)
OPTIONS = ("option", "item", "alt", "alternative", "variety", "product", "candidate", "profile")
RANKS = ("rank", "ranked", "place", "pos", "position", "preference", "")
SETS = (
    *("set", "setid", "task", "taskid", "trial", "question", "choiceid", "chid", "obsid", "obs"),
    *("scenario", "ballot", "race", "event", "qid", "ques"),
)
_ITEMS = ("item", "alternative", "option", "product", "object", "variety", "alt")
CHOICE_WORDS = ("choice", "selected", "picked", "decision", "response", "answer", "best_worst")
PLACES = ("rank", "place", "position", "pos")
# Of rankings in one cell.
CELLS = (RANKING, "ballot", "order", "ranked", "ranks", "preference_order", "ordering")
PEOPLE = (
    *("person", "person_id", "pid", "respondent", "respondent_id", "resp_id", "resp", "user"),
    *("user_id", "subject", "subject_id", "participant", "participant_id", "voter", "id"),
)
POSITIONS = ("alt", "alternative", "position", "profile")
_AVAILABLE = ("av", "avail", "available", "availability")
_NUMBERED = re.compile(r"(?:option|choice|alt|alternative|item)0*([1-9]\d*)")
_NOT_RANKED = ("", "NA", "NaN", "nan", "n/a")
# How a column says which option was chosen.
CHOSEN_BY = ("name", "position", "position-from-0", "letter", "column", "number")
# What says best, worst and neither in one column.
_SCORED = {"1": BEST, "best": BEST, "-1": WORST, "worst": WORST}
_SCORED |= dict.fromkeys(("0", "neither", "none", ""), "")


def as_written(header: Header) -> list[str | None]:
    """Columns that may hold ids of sets or of items, or what was chosen."""
    return [
        *header.numbered(*OPTIONS),
        *header.numbered(*RANKS),
        header.column(CHOICE_SET, RANKING, *SETS),
        header.column(ITEM_ID, *_ITEMS),
        header.column(CHOSEN, *CHOICE_WORDS),
        *header.every(BEST, WORST, RANKING),
    ]


class Long:
    """A table of answers about sets on its way to the long form.

    :param table: as it was read.
    :param form: what somebody said of it.
    :param kind: choices, rankings or best_worst.
    """

    def __init__(self, table: Table, form: Stated, kind: str, asked: bool = False) -> None:
        self.table, self.form, self.kind, self.asked = table, form, kind, asked
        self.frame = table.frame
        self.header = Header(table.frame.columns)
        self.described = Header(name for name in self.header.names if name not in form.ignore)
        self.what, self.marks = ANSWERS[kind]
        self.set_column = RANKING if kind == "rankings" else CHOICE_SET
        self.columns: dict[str, str] = {}
        self.notes: list[str] = []
        self.left_out: dict[str, int] = {}
        self.chosen_by: str | None = None
        self.by_name = False

    # ---- which columns ---------------------------------------------------------------------------

    def options(self) -> list[str]:
        """The columns that hold all that was shown."""
        if not self.form.options:
            return self.header.numbered(*OPTIONS)
        wanted = [
            [name for name in self.header.names if fnmatchcase(name, pattern)]
            for pattern in self.form.options
        ]
        for pattern, names in zip(self.form.options, wanted, strict=True):
            if not names and not self.header.attributes(self.form.options):
                raise ValueError(
                    f"No column of {self.table.name} is called {pattern!r} (--options, options=; "
                    f"columns found: {self.table.columns_found})."
                )
        return [*dict.fromkeys(name for names in wanted for name in names)]

    def made(self) -> tuple[Table, ReadAs]:
        """The long table, and what was understood.

        :raises ValueError: a form that is none, or that may be read in two ways.
        """
        table, form = self._rankings() if self.kind == "rankings" else self._marked()
        read_as = ReadAs(form, self.columns, left_out=self.left_out, notes=tuple(self.notes))
        return table, read_as

    def _marked(self) -> tuple[Table, str]:
        options = self.options()
        marked = [self.header.column(mark) for mark in self.marks]
        if len(self.marks) == 1 and marked == [None]:
            marked = [self.header.column(*CHOICE_WORDS)]
        there = [name for name in marked if name is not None]
        whole = len(there) == len(marked) or self.asked
        if not options and there and whole and not any(map(self._flags, there)):
            options = self._options_of_any_stem(there)
        if options and (whole or self.form.options):
            return self._wide(options, [*marked] if not self.asked else []), "a row for each answer"
        if self.kind == "choices" and there:
            self._refuse_flags(there[0])
        if self.kind == "choices" and there and not self._flags(there[0]):
            attributes, labels = self._attributes(there[0])
            if attributes:
                table = self._conjoint(attributes, there[0], labels)
                return table, "a row for each answer, with attributes"
        return self._long(marked), "a row for each alternative"

    def _options_of_any_stem(self, marked: Sequence[str]) -> list[str]:
        """Columns that share a stem and running numbers, among which each row names what was
        chosen."""
        stems = dict.fromkeys(re.sub(r"\d+$", "", squeezed(name)) for name in self.header.names)
        for stem in stems:
            options = [] if stem in ("", *QUESTIONS) else self.header.numbered("", stem)
            if len(options) < 2:
                continue
            shown = self._cells(options)
            values = (ids_of(self.frame[name])[:, None] for name in marked)
            if all((shown == texts).any(1).all() for texts in values):
                return options
        return []

    def _refuse_flags(self, chosen: str) -> None:
        """Refuse 0 and 1 next to attributes of several alternatives in one row, which may be
        positions."""
        found, common = self._numbered_attributes()
        long = any(self.header.column(name) for name in (CHOICE_SET, ITEM_ID))
        if len(found) == 2 and common and not long and self._flags(chosen):
            raise ValueError(
                f"The column {chosen!r} of {self.table.name} holds 0 and 1 alone, next to "
                f"attributes of {len(found)} alternatives in each row; say whether it is the "
                "position of one (--chosen-by position-from-0 or position, chosen_by=), or write "
                "a row for each alternative."
            )

    def _flags(self, column: str) -> bool:
        by_code = (self.form.chosen_by or "name") != "name"
        return not by_code and are_flags(self.frame[column], "")

    # ---- one row for each answer -----------------------------------------------------------------

    def _melted(
        self, there: BoolArray, items: Texts | None, drop: Sequence[str], **columns: Any
    ) -> Table:
        """A row for each cell that is there, (rows, k), answer by answer."""
        alone = there.sum(1) < 2
        if self.kind == "rankings" and alone.any() and not alone.all():
            self.left_out["of one item or none, which say nothing"] = int(alone.sum())
            there = there & ~alone[:, None]
        for i in () if self.left_out else first_true(~there.any(1)):
            raise ValueError(
                f"{begin(self.table.row(i))} has no item; give at least two, or remove it."
            )
        row, at = np.nonzero(there)
        frame = self.frame.drop(columns=[*dict.fromkeys(drop)]).iloc[row].reset_index(drop=True)
        said = {name: values[row, at] for name, values in columns.items()}
        if items is not None:
            said[ITEM_ID] = items[row, at]
        own = self.header.column(self.set_column)
        if own is None or own in drop:
            said[self.set_column] = row
        else:
            Sets.of(self.table, own, self.what).refuse_twice(self.table)
            frame = frame.rename(columns={own: self.set_column})
        return self.table.of_rows(frame.assign(**said), row)

    def _cells(self, names: Sequence[str]) -> Texts:
        """Columns of ids as texts, (rows, k)."""
        texts = [ids_of(self.frame[name]) for name in names]
        for name, column in zip(names, texts, strict=True):
            refuse_control(column.tolist(), name, self.table.row)
        return np.stack(texts, 1)

    def _wide(self, options: Sequence[str], marked: Sequence[str | None]) -> Table:
        self.table.require(
            *(mark for mark, name in zip(self.marks, marked, strict=False) if name is None)
        )
        shown = self._cells(options)
        named = [name for name in marked if name is not None]
        self._refuse_zeros(options, shown, named)
        self.columns = {"options": ", ".join(options)}
        places = self._among(named, shown, options) if named else []
        said = {}
        for mark, name, at in zip(self.marks, named, places, strict=False):
            self.columns[mark] = name
            said[mark] = (at[:, None] == np.arange(len(options))).astype(np.int64)
        for i in first_true(places[0] == places[1]) if len(places) == 2 else ():
            raise ValueError(
                f"{begin(self.table.row(i))} has the item {shown[i, places[0][i]]!r} as the best "
                "and as the worst; correct one of them."
            )
        self.by_name = True
        return self._melted(shown != "", shown, [*options, *named], **said)

    def _refuse_zeros(self, listed: Sequence[str], shown: Texts, marked: Sequence[str]) -> None:
        """Empty cells of 0 that is nobody: at the ends of rows alone, if no item is called so."""
        empty = self.form.empty
        chosen = {text for name in marked for text in ids_of(self.frame[name])}
        known = {*self.form.ids, *chosen}
        for word in (*empty, *(word for word in _NOT_RANKED if word and word not in known)):
            here = shown == word
            between = (here & _before_others((shown != "") & ~here)).any()
            cells = counted(int(here.sum()), "cell")
            if word == "NA" and word not in empty and between and not (here.sum(1) > 1).any():
                self.notes.append(f"NA ({cells}) is an item; if it is nobody, say --empty NA")
            elif here.any():
                shown[here] = ""
                self.notes.append(f"{word} ({cells}) is nobody")
        zero = np.vectorize(is_zero, otypes=[bool])(shown)
        if empty or not zero.any() or any(map(is_zero, self.form.ids)):
            return
        is_chosen = any(map(is_zero, chosen))
        row, place = (int(x) for x in np.argwhere(zero)[0])
        if is_chosen or (zero & _before_others((shown != "") & ~zero)).any():
            if is_chosen or zero[:, 0].any():
                return  # an item like the others
            raise ValueError(
                f"{begin(self.table.row(row))} has 0 in {listed[place]!r}, which may be an item "
                "or nobody; give --empty 0 (empty=) if it is nobody, else a table of items with "
                "the id 0 (--items)."
            )
        shown[zero] = ""
        rows = counted(int(zero.any(1).sum()), "row")
        self.notes.append(
            f"0 stands at the ends of rows alone ({rows}) and is nobody (a table of items with the "
            "id 0 would make it an item)"
        )

    def _among(
        self,
        names: Sequence[str],
        shown: Texts,
        options: Sequence[str],
        optional: bool = False,
    ) -> list[IntArray]:
        """Which option of its row each value of some columns is, (rows,) each: by name, or else all
        by position, letter or column; -1 for none where that is possible.

        :raises ValueError: a value that is none of them, with its row; values that may be names
            and positions.
        """
        columns = [ids_of(self.frame[name]) for name in names]
        # Positions of all columns begin alike.
        from_0 = self.form.chosen_by == "position-from-0" or (
            self.form.chosen_by is None and any("0" in texts for texts in columns)
        )
        readings = [self._codes(texts, shown, options, int(not from_0)) for texts in columns]
        bad = {
            how: [
                (name, int(i))
                for name, texts, places in zip(names, columns, readings, strict=True)
                for i in np.flatnonzero((places[how] < 0) & ~(optional & (texts == "")))
            ]
            for how in readings[0]
        }
        # Codes are none where some are names, unless somebody says so.
        named = len(bad["name"]) < sum((texts != "").sum() for texts in columns)
        how = min(bad, key=lambda word: len(bad[word]))
        if bad[how] and named:
            how = "name"
        stated = (self.form.chosen_by or "").removesuffix("-from-0")
        how = stated or how
        if bad[how]:
            name, i = bad[how][0]
            raise self._not_among(name, columns[names.index(name)][i], i, shown[i], optional)
        if how == "name" and not stated and not bad["position"]:
            for name, texts, places in zip(names, columns, readings, strict=True):
                for i in first_true(places["position"] != places["name"]):
                    other = shown[i, places["position"][i]]
                    raise ValueError(
                        f"The column {name!r} has only numbers of options, such as {texts[i]} in "
                        f"{self.table.row(i)}, which may be the item {texts[i]!r} or the "
                        f"option at that position, {other!r}; say which (--chosen-by name or "
                        "position, chosen_by=)."
                    )
        which = f"{and_so(map(repr, names))} {agreeing(len(names), 'holds', 'hold')}"
        letters = any((places["letter"] != places["name"]).any() for places in readings)
        if how == "name" and not bad["letter"] and letters:
            self.notes.append(
                f"{which} names, which are letters too, and are not taken for the place of an "
                "option"
            )
        from_0 = from_0 and how == "position"
        self.chosen_by = "position-from-0" if from_0 else how
        if how != "name":
            since = ", counted from 0" * from_0
            self.notes.append(f"{which} the {how} of an option{since}, not its name")
        return [places[how] for places in readings]

    def _codes(
        self, texts: Texts, shown: Texts, options: Sequence[str], start: int
    ) -> dict[str, IntArray]:
        """The option of each row that a text may be, (rows,), -1 for none, by what it is of it.

        :param start: the position of the first option.
        """
        same = (shown == texts[:, None]) & (texts != "")[:, None]
        name = np.where(same.any(1), same.argmax(1), -1)
        for i in np.flatnonzero((name < 0) & (texts != "")):
            place = Ids({text: j for j, text in enumerate(shown[i])}).find(texts[i])
            name[i] = -1 if place is None else place
        keys = [squeezed(text) for text in texts]
        columns = {squeezed(name): j for j, name in enumerate(options)}
        codes = {
            "position": [int(float(x)) - start if WHOLE_NUMBER.fullmatch(x) else -1 for x in texts],
            "letter": [ord(key) - 97 if re.fullmatch("[a-z]", key) else -1 for key in keys],
            "column": [columns.get(key, -1) for key in keys],
            "number": [int(x[1]) - 1 if (x := _NUMBERED.fullmatch(key)) else -1 for key in keys],
        }
        return {"name": name} | {
            how: np.array(
                [
                    k if 0 <= k < len(row) and row[k] else -1
                    for k, row in zip(at, shown, strict=True)
                ]
            )
            for how, at in codes.items()
        }

    def _not_among(self, name: str, text: str, i: int, ids: Texts, optional: bool) -> ValueError:
        here = [id for id in ids if id]
        same = next((id for id in here if squeezed(id) == squeezed(text)), "")
        near = None if not text or WHOLE_NUMBER.fullmatch(text) else spelt_like(text, here)
        remedy = "write the id of one of them, or its position, letter or column throughout"
        if same or near:
            remedy = f"did you mean {same or near!r}? Otherwise {remedy}"
        elif is_zero(text) or not text:
            remedy += f", or leave the {'cell empty' if optional else 'row out'} if it is nobody"
        shown = f"The {name} item {shortened(text)}" if text else f"A missing {name} item"
        return ValueError(
            f"{shown} in {self.table.row(i)} is not among its options "
            f"{listing([repr(id) for id in here])}; {remedy}."
        )

    # ---- attributes in columns -------------------------------------------------------------------

    def _attributes(self, chosen: str) -> tuple[dict[str, dict[str, str]], bool]:
        """Columns that describe alternatives, by alternative and attribute, and whether these have
        names and no numbers."""
        if self.form.options:
            return self.described.attributes(self.form.options), True
        found, common = self._numbered_attributes()
        self._refuse_families(found, common)
        numbers, k = sorted(map(int, found)), len(found)
        if common and numbers in ([*range(1, k + 1)], [*range(k)]):
            return {label: found[label] for label in sorted(found, key=int)}, False
        values = {*ids_of(self.frame[chosen])} - {"", self.form.none}
        return labelled(self.header.names, map(str, values)), True

    def _numbered_attributes(self) -> tuple[dict[str, dict[str, str]], set[str]]:
        """Those of alternatives with numbers, and the attributes that all of these have."""
        found = self.described.attributes(self.form.options)
        found = {label: columns for label, columns in found.items() if label.isdigit()}
        return found, set.intersection(*map(set, found.values())) if len(found) > 1 else set()

    def _refuse_families(self, found: dict[str, dict[str, str]], common: set[str]) -> None:
        """Refuse attributes of other alternatives than those of the others."""
        columns: dict[str, list[str]] = {}
        for of in found.values():
            for name, column in of.items():
                columns.setdefault(name, []).append(column)
        several = [name for name in columns if len(columns[name]) > 1]
        odd = next((name for name in several if name not in common), None)
        if odd is not None and common:
            one, other = columns[next(iter(common))], columns[odd]
            raise ValueError(
                f"The columns {listing(one)} and {listing(other)} of {self.table.name} have other "
                "numbers, so that they cannot both describe the alternatives; leave those out that "
                f"do not (--ignore {','.join(one)} or --ignore {','.join(other)}, ignore=)."
            )

    def _conjoint(self, attributes: dict[str, dict[str, str]], chosen: str, named: bool) -> Table:
        """A row for each alternative that columns describe."""
        labels, none, texts = [*attributes], self.form.none, ids_of(self.frame[chosen])
        alternatives = labels if none is None else [*labels, ""]
        names = [*dict.fromkeys(name for label in labels for name in attributes[label])]
        if not self.form.options:  # what only some have is no attribute of theirs
            names = [name for name in names if all(name in attributes[x] for x in labels)]
        used = [attributes[x][name] for x in labels for name in names if name in attributes[x]]
        is_none = np.zeros(len(texts), bool) if none is None else texts == none
        where = self._chosen_label(chosen, texts, labels, named, is_none)
        cells, blank = dict[str, Any](), np.full(len(texts), None)
        for name in names:
            columns = [attributes.get(label, {}).get(name) for label in alternatives]
            each = [blank if c is None else self.frame[c].to_numpy(dtype=object) for c in columns]
            cells[name] = np.stack(each, 1)
        there = self._shown(cells, where, len(alternatives))
        if named:
            cells[ITEM_ID] = np.tile(np.array(alternatives, dtype=object), (len(texts), 1))
        cells[CHOSEN] = (where[:, None] == np.arange(there.shape[1])).astype(np.int64)
        clash = [name for name in cells if name in self.frame.columns and name not in used]
        table = self._melted(there, None, [*used, chosen, *clash], **cells)
        names = [name for name in names if name in cells]
        for name in names:
            table.frame[name] = table.frame[name].infer_objects()
        self.columns = {
            "alternatives": ", ".join(labels),
            "attributes": ", ".join(names),
            "chosen": chosen,
        }
        if none is not None:
            self.columns["none of these"] = f"{none} of {chosen}"
        return table

    def _shown(self, cells: dict[str, Any], where: IntArray, k: int) -> BoolArray:
        """Which alternatives were there, (rows, k): those that were available, where a column says
        so, and have an attribute, or were chosen without any, as "none of these" may be."""
        available = next((name for name in cells if squeezed(name) in _AVAILABLE), None)
        if available is not None:
            flags = [id_text(x).casefold() for x in cells.pop(available).ravel()]
            shown = np.array([YES_AND_NO.get(flag, True) for flag in flags]).reshape(-1, k)
            self.notes.append(f"An alternative with 0 in {available!r} was not there")
        else:
            blank = [[not id_text(x) for x in values.ravel()] for values in cells.values()]
            empty = np.all(blank, axis=0).reshape(-1, k)
            shown = ~empty | empty.all(0)
        shown[np.arange(len(where)), where] = True
        return shown

    def _chosen_label(
        self, chosen: str, texts: Texts, labels: Sequence[str], named: bool, is_none: BoolArray
    ) -> IntArray:
        """The alternative that was chosen in each row, (rows,), the last being none of these."""
        keys = {squeezed(label): i for i, label in enumerate(labels)}
        places = np.full(len(texts), len(labels))
        shift = int(self.form.chosen_by == "position-from-0" and "0" not in keys)
        for i in np.flatnonzero(~is_none):
            key = squeezed(texts[i])
            number = None if named else re.fullmatch(r"[a-z]*(\d+)", key)
            if number is not None and (place := str(int(number[1]) + shift)) in keys:
                places[i] = keys[place]
            elif key in keys:
                places[i] = keys[key]
            elif re.fullmatch("[a-z]", key) and ord(key) - 97 < len(labels):
                places[i] = ord(key) - 97
            elif named and key.isdecimal() and 1 <= int(key) <= len(labels):
                places[i] = int(key) - 1
            else:
                zero = is_zero(texts[i]) and str(len(labels)) not in texts
                begins = "; if it is the first one, write positions from 1 on" if zero else ""
                raise ValueError(
                    f"The {chosen} {shortened(texts[i]) if texts[i] else 'that is missing'} in "
                    f"{self.table.row(int(i))} is none of the alternatives {listing(labels)}, nor "
                    "the position, letter or column of one; correct it, or, if it is none of "
                    f"these, say so with --none {texts[i] or 'VALUE'} (none=){begins}."
                )
        return places

    # ---- a row for each alternative --------------------------------------------------------------

    def _long(self, marked: Sequence[str | None]) -> Table:
        header = self.header
        own = header.column(self.set_column, *(() if self.asked else SETS))
        item = header.column(ITEM_ID)
        if item is None and self._names_items(own):
            item = header.column(*_ITEMS)
        frame, said = self.frame, dict[str, Any]()
        scored = None if self.kind != "best_worst" or any(marked) else self._scored()
        if scored is not None:
            texts = [x.casefold() for x in ids_of(frame[scored])]
            said = {
                mark: np.array([_SCORED[x] == mark for x in texts], np.int64) for mark in self.marks
            }
            frame = frame.drop(columns=scored)
        found = (own, self.set_column), (item, ITEM_ID), *zip(marked, self.marks, strict=True)
        renamed = {name: known for name, known in found if name is not None}
        self.columns = {known: name for name, known in renamed.items()}
        self.columns |= dict.fromkeys(said, str(scored))
        frame = frame.assign(**said).rename(columns=renamed)
        return self._by_person(replace(self.table, frame=frame), own)

    def _scored(self) -> str | None:
        """The column of 1, 0 and -1, or best and worst: one of a usual name, or the only one."""
        named = self.header.every("best_worst", CHOSEN, "score", "value", *CHOICE_WORDS)
        for names in (named, self.header.names):
            scored = []
            for name in names:
                texts = {text.casefold() for text in ids_of(self.frame[name])}
                if texts <= {*_SCORED} and texts & {"-1", "worst"}:
                    scored.append(name)
            if scored and (names is named or len(scored) == 1):
                return scored[0]
        return None

    def _names_items(self, own: str | None) -> bool:
        """Whether a column of items by another name than `item_id` holds their names, and not where
        each stood next to others that describe it."""
        name = self.header.column(*_ITEMS)
        if name is None or squeezed(name) not in POSITIONS or own is None:
            return name is not None
        others = {*self.frame.columns} - {name, own, *self.header.every(*PEOPLE, *self.marks)}
        return not (others and counts_rows(self.frame[name], ids_of(self.frame[own])))

    def _by_person(self, table: Table, own: str | None) -> Table:
        """Sets whose numbers begin again for each person."""
        frame, column = table.frame, self.set_column
        if own is None:
            return table
        person = self.form.person or self.header.column(*PEOPLE)
        if person is None or person not in frame.columns or person == column:
            return table
        sets, people = ids_of(frame[column]), ids_of(frame[person])
        blocks = (sets[1:] != sets[:-1]) | (people[1:] != people[:-1])
        both = [f"{a}|{b}" for a, b in zip(people, sets, strict=True)]
        numbers = len({*both}), len({*sets}), blocks.sum() + 1, len(both)
        if numbers[0] in (numbers[1], numbers[3]) or numbers[0] != numbers[2]:
            return table
        self.notes.append(
            f"{own!r} begins again for each {person!r}, so that an answer is one of both"
        )
        self.columns[column] = f"{person} and {own}"
        return replace(table, frame=frame.assign(**{column: both}))

    # ---- rankings --------------------------------------------------------------------------------

    def _rankings(self) -> tuple[Table, str]:
        header, frame = self.header, self.frame
        places = header.numbered(*RANKS)
        options = self.options() if self.form.options else header.numbered(OPTIONS[0])
        matrix = self.form.options and ({*options} & {*places} or not self.holds_places(options))
        if places and not matrix:
            self._refuse_matrix(places)
            numbers = {int(re.sub(r"\D", "", name) or 0) for name in places}
            for missing in sorted({*range(1, len(places) + 1)} - numbers):
                self.table.require(f"{RANK}_{missing}")
            return self._wide_ranking(places, options), "a row for each ranking"
        items = options if self.holds_places(options) else self.grid()
        if items:
            return self._matrix_of_places(items), "a column for each item, with its place"
        cell = header.column(*CELLS)
        if cell is not None and any(re.search(r"[>,|;]|^\[", text) for text in ids_of(frame[cell])):
            return self._in_one_cell(cell), "a row for each ranking, in one cell"
        place = header.column(*PLACES)
        own = header.column(RANKING, *SETS, CHOICE_SET)
        item = header.column(ITEM_ID, *_ITEMS, "name", "driver", "runner", "horse", "player")
        would_do = self._columns_of_places() if place is None or item is None else []
        if would_do:
            raise ValueError(
                f"The columns {and_so(map(repr, would_do))} of {self.table.name} hold places in "
                "each row; if they are items with their places, say so (--rankings FILE --options "
                f"{','.join(would_do)}, options=)."
            )
        found = (own, RANKING), (item, ITEM_ID), (place, RANK)
        renamed = {name: known for name, known in found if name is not None}
        self.columns = {known: name for name, known in renamed.items()}
        frame = frame.rename(columns=renamed)
        cells = ids_of(frame[RANK]) if RANK in frame.columns else np.empty(0, dtype=object)
        if self.form.empty and cells.size:
            cells[np.isin(cells, self.form.empty)] = ""
            frame = frame.assign(**{RANK: cells})
        for i, cell in enumerate(cells):
            if cell and not re.fullmatch(r"[+-]?\d+([.,]\d+)?", cell):
                raise ValueError(
                    f"The place (column {place!r}) is {shortened(cell)} in {self.table.row(i)}, "
                    f"which is no number; if it is none at all, say --empty {cell} (empty=), with "
                    "--unranked-last if such stand below all others."
                )
        table = self._by_person(replace(self.table, frame=frame), own)
        if cells.size and RANKING in table.frame.columns:
            ranks = require_pandas().Series(cells).groupby(ids_of(table.frame[RANKING]))
            self._refuse_zero_places(x for _, x in ranks)
        return table, "a row for each place"

    def _refuse_matrix(self, places: Sequence[str]) -> None:
        """Refuse numbers that may be the places of columns, and not the items at places."""
        rows = [*zip(*(ids_of(self.frame[name]) for name in places), strict=True)]
        numbers = {str(i) for i in range(1, len(places) + 1)}
        if not all({*row} == numbers for row in rows) or numbers <= {*self.form.ids}:
            return
        raise ValueError(
            f"The columns {and_so(map(repr, places))} of {self.table.name} hold 1 to {len(places)} "
            "in each row, which may be items, best first, or the place of each column; if columns "
            f"are items, say so (--rankings FILE --options {','.join(places)}, options=), else "
            "give a table of items with these ids (--items)."
        )

    @property
    def whole(self) -> bool:
        """Whether all columns that a row for each alternative needs were found."""
        there = {*self.columns}
        return self.by_name or {self.set_column, *self.marks} <= there or "attributes" in there

    def grid(self) -> list[str]:
        """The columns of a question whose name ends in an item in brackets, if they hold places."""
        asked = [name for name in self.header.names if re.fullmatch(r".*\[.+\]", name)]
        families = grouped(asked, lambda name: name.rpartition("[")[0]).values()
        grids = [names for names in families if len(names) > 1 and self.holds_places(names)]
        return grids[0] if len(grids) == 1 else []

    def holds_places(self, options: Sequence[str]) -> bool:
        """Whether these columns hold whole numbers, or nothing, but not nothing alone."""
        nobody = {*_NOT_RANKED, *self.form.empty}
        texts = {text for name in options for text in ids_of(self.frame[name])} - nobody
        return bool(texts) and all(map(WHOLE_NUMBER.fullmatch, texts))

    def _columns_of_places(self) -> list[str]:
        """Columns of whole numbers that are 1, 2, … in each row together."""
        names = [name for name in self.frame.columns if self.holds_places([name])]
        texts = [ids_of(self.frame[name]) for name in names]
        cells = [[0 if x in _NOT_RANKED else int(float(x)) for x in column] for column in texts]
        places = np.array(cells, np.float64).reshape(len(names), len(self.frame))
        for first in range(len(names) - 1):
            for last in range(len(names), first + 2, -1):
                here = places[first:last]
                n = (here > 0).sum(0)
                sums = (here.sum(0) == n * (n + 1) / 2) & (here.max(0) == n)
                squares = (here**2).sum(0) == n * (n + 1) * (2 * n + 1) / 6
                if (sums & squares).all() and 2 * (n > 1).sum() > len(n):
                    return names[first:last]
        return []

    def would_do(self) -> str:
        """Which of the columns may be what, for a message; empty where nothing can be said."""
        if self.kind == "rankings" and (places := self._columns_of_places()):
            return (
                f"if {and_so(map(repr, places))} are items with their places, say --rankings FILE "
                f"--options {','.join(places)}"
            )
        number = require_pandas().factorize
        texts = {name: ids_of(self.frame[name]) for name in self.frame.columns}
        codes = {name: number(values)[0] for name, values in texts.items()}
        person, rows = self.header.column(*PEOPLE), len(self.frame)
        for mark, values in texts.items():
            keys = [text.casefold() for text in values]
            chosen = np.array([key in ("1", "true", "yes", "best") for key in keys])
            scored = {*keys} & {"-1", "worst"}
            if not {*keys} <= {*YES_AND_NO, *_SCORED} or not 0 < chosen.mean() <= 0.5:
                continue
            for own in texts:
                sets = codes[own]
                if person not in (None, own, mark):
                    sets = number(codes[str(person)] * rows + sets)[0]
                often = np.bincount(sets[chosen], minlength=sets.max() + 1)
                if own == mark or not (often == 1).all():
                    continue
                kind = "--best-worst" if scored else "--choices"
                word = BEST_AND_WORST if scored else CHOSEN
                items = [
                    name
                    for name in texts
                    if name not in (own, mark)
                    and 2 * codes[name].max() + 2 <= rows
                    and len(np.unique(sets * rows + codes[name])) == rows
                ]
                item = f",{ITEM_ID}={items[0]}" if items else ""
                each = repr(own) if person in (None, own) else f"{own!r} of each {person!r}"
                return (
                    f"if {mark!r} marks one row of each {each}, say {kind} FILE --columns "
                    f"{CHOICE_SET}={own},{word}={mark}{item}"
                )
        return ""

    def _wide_ranking(self, places: Sequence[str], options: Sequence[str]) -> Table:
        ranked = self._cells(places)
        self._refuse_zeros(places, ranked, [])
        there = ranked != ""
        self._note_unranked(there)
        self.columns, self.by_name = {"places": ", ".join(places)}, True
        if not options:
            number = np.broadcast_to(np.arange(1, len(places) + 1), there.shape)
            return self._melted(there, ranked, places, **{RANK: number})
        shown = self._cells(options)
        self.columns["options"] = ", ".join(options)
        rank = np.full(shown.shape, np.nan)
        for place, at in enumerate(self._among(places, shown, options, optional=True), 1):
            rows = np.flatnonzero(at >= 0)
            rank[rows, at[rows]] = place
        return self._melted(shown != "", shown, [*places, *options], **{RANK: rank})

    def _note_unranked(self, there: BoolArray) -> None:
        if there.all():
            return
        short = counted(int((~there).any(1).sum()), "row")
        gaps = int((~there[:, :-1] & there[:, 1:]).any(1).sum())
        between = f", in {gaps:,} of them between others, whose order is kept" if gaps else ""
        self.notes.append(f"Empty places ({short}) are not ranked{between}")

    def _matrix_of_places(self, options: Sequence[str]) -> Table:
        """A column for each item, which holds its place."""
        texts = self._cells(options)
        self._refuse_zero_places(texts)
        places = np.where(np.isin(texts, [*_NOT_RANKED, *self.form.empty]), np.nan, texts)
        places = places.astype(np.float64)
        names = np.broadcast_to(np.array(_without_stem(options), dtype=object), texts.shape)
        self.columns = {"items, with their places": ", ".join(options)}
        there = ~np.isnan(places)
        self._note_unranked(there)
        if self.form.unranked_last:
            there |= there.any(1)[:, None]
        return self._melted(there, names, options, **{RANK: places})

    def _refuse_zero_places(self, rankings: Iterable[Sequence[str]]) -> None:
        """Refuse 0 as a place where places do not begin with it in each ranking that has it."""
        if self.form.empty:
            return
        rows = [[x for x in row if WHOLE_NUMBER.fullmatch(x)] for row in rankings]
        places = [sorted(int(float(x)) for x in row) for row in rows]
        if any(0 in row for row in places) and any(row != [*range(len(row))] for row in places):
            raise ValueError(
                f"Places of {self.table.name} may begin with 0, or 0 may be nobody; say --empty 0 "
                "if it is nobody (empty=), else number the places from 1 on."
            )

    def _in_one_cell(self, column: str) -> Table:
        cells = ids_of(self.frame[column])
        separator = next((mark for mark in ">|;," if any(mark in cell for cell in cells)), ",")
        orders = [_ordered(cell, separator) for cell in cells]
        size = max(map(len, orders), default=0)
        whole = [[*order, *[("", 0)] * (size - len(order))] for order in orders]
        items, rank = np.moveaxis(np.array(whole, dtype=object).reshape(-1, size, 2), 2, 0)
        self.columns = {"ranking": column}
        return self._melted(items != "", items, [column], **{RANK: rank.astype(np.float64)})


def _before_others(there: BoolArray) -> BoolArray:
    """Which cells, (rows, k), are there or stand before one that is."""
    return np.asarray(np.flip(np.maximum.accumulate(np.flip(there, 1), 1), 1))


def counts_rows(column: Any, sets: npt.NDArray[Any]) -> bool:
    """Whether a column is 1, 2, … or A, B, … from where each set begins, so that it says where a
    row stood.

    :param sets: (rows,) the set of each row.
    """
    new = np.append(True, sets[1:] != sets[:-1])
    place = np.arange(len(sets)) - np.flatnonzero(new)[np.cumsum(new) - 1]
    texts = zip(ids_of(column), place, strict=True)
    return all(text in (str(i + 1), chr(ord("A") + i)) for text, i in texts)


def _without_stem(names: Sequence[str]) -> list[str]:
    """Names of columns without what all begin with: `Xbox` of `ch.Xbox`, or of `Which? [Xbox]`."""
    within = [re.fullmatch(r"(.*)\[(.+)\]", name) for name in names]
    if all(within) and len({match[1] for match in within if match}) == 1:
        return [match[2] for match in within if match]
    stem = re.match(r".*?[._:\s-]", names[0])
    begin = stem[0] if stem and all(name.startswith(stem[0]) for name in names) else ""
    return [name.removeprefix(begin) for name in names]


def _ordered(cell: str, separator: str) -> list[tuple[str, int]]:
    """Items with their places, of `a > b > c`, `a, b, c` or `["a", "b"]`; `b = c` share one.

    :param separator: that of all cells.
    """
    text = cell.strip()
    if text.startswith("["):
        try:
            listed = json.loads(text)
        except json.JSONDecodeError:
            try:
                listed = literal_eval(text)
            except (SyntaxError, ValueError):
                listed = text.strip("[]").split(",")
        return [(str(item).strip(), i) for i, item in enumerate(listed, 1)]
    tiers = [re.split(r"\s*[=~]\s*", part) for part in text.split(separator)]
    return [
        (item.strip(), place)
        for place, tier in enumerate(tiers, 1)
        for item in tier
        if item.strip()
    ]
