"""Results say where to look for what they have not, and fail by their own errors."""

import pytest

from sparse_prefgp.analysis.ranking import Ranking
from sparse_prefgp.support.elsewhere import says
from sparse_prefgp.workflow.workflow import FitOutput


class Result:
    __getattr__ = says("A result has no {name}; look at `.other`.")
    other = 3

    @property
    def broken(self):
        return self.other.nothing


def test_what_is_there_is_found_and_what_is_not_is_said():
    assert Result().other == 3
    with pytest.raises(AttributeError, match=r"^A result has no 'head'; look at `.other`\.$"):
        _ = Result().head
    assert not hasattr(Result(), "head")


def test_a_property_fails_by_its_own_error():
    with pytest.raises(AttributeError, match="'int' object has no attribute 'nothing'"):
        _ = Result().broken


@pytest.mark.parametrize(
    ("kind", "name", "remedy"),
    [(Ranking, "to_csv", ".frame"), (FitOutput, "row_layout", "fitted.model")],
)
def test_rankings_and_fits_name_what_was_meant(kind, name, remedy):
    with pytest.raises(AttributeError) as caught:
        getattr(object.__new__(kind), name)
    assert repr(name) in str(caught.value) and remedy in str(caught.value)
