"""What a vote of each judge costs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.io.files import id_text, load
from sparse_prefgp.io.ids import meant_id
from sparse_prefgp.support.checks import check_number
from sparse_prefgp.support.words import shortened

JUDGE, PRICE = "judge", "price"


def priced(names: Sequence[Hashable], prices: Any) -> dict[int, float]:
    """The prices of votes by the places of their judges.

    :param names: of all judges.
    :param prices: as for `settled`.
    :raises ValueError: a judge who is none of these, or who is there twice; what is no positive
        number; no price at all.
    """
    row = {id_text(name): i for i, name in enumerate(names)}
    price: dict[int, float] = {}
    for judge, value in _prices(prices):
        number = row.get(id_text(judge))
        if number is None:
            raise ValueError(
                f"The prices have {shortened(judge)}, who is no judge of the votes; "
                f"{meant_id(id_text(judge), row)}leave out who has no vote."
            )
        if number in price:
            raise ValueError(f"The prices have {shortened(judge)} twice; give one price of each.")
        check_number(f"The price of {judge}", value, above=0.0)
        price[number] = float(value)
    if not price:
        raise ValueError("There are no prices; give that of at least one judge, or leave them out.")
    return price


def _prices(prices: Any) -> list[tuple[Hashable, Any]]:
    """Judges and prices."""
    if isinstance(prices, Mapping):
        return list(prices.items())
    table = load(prices, "prices", lambda header: (JUDGE,))
    table.require(JUDGE, PRICE)
    cells = table.frame[PRICE]
    numbers = require_pandas().to_numeric(cells, errors="coerce")  # one word makes all words
    cells = numbers.astype(object).where(numbers.notna(), cells)
    return list(zip(table.frame[JUDGE].tolist(), cells.tolist(), strict=True))
