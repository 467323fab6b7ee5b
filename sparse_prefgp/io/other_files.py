"""Files that are no tables, and which program makes one of each."""

from __future__ import annotations

from pathlib import Path

_FRAME = "in Python make a table of it with pandas.{}.to_csv('{}.csv', index=False)"
# Endings, what such files are, and the remedy, or what pandas reads them with.
_KINDS = (
    (".xls .xlsb .ods .numbers", "a spreadsheet of another kind", "save it as .xlsx or as CSV"),
    (
        ".pgn",
        "a list of chess games",
        "in Python make a table of it with import chess.pgn (python-chess), file = open({0!r}) and "
        "pandas.DataFrame(map(dict, iter(lambda: chess.pgn.read_headers(file), None)))"
        ".to_csv('{1}.csv', index=False)",
    ),
    (
        ".rds .rdata .rda",
        "data of R",
        "write it from R with write.csv(x, '{1}.csv', row.names = FALSE)",
    ),
    (".sav .zsav", "data of SPSS", "read_spss({0!r})"),
    (".dta", "data of Stata", "read_stata({0!r})"),
    (".sas7bdat .xpt", "data of SAS", "read_sas({0!r})"),
    (".feather .arrow", "Feather", "read_feather({0!r})"),
    (".pkl .pickle", "a Python object", "read_pickle({0!r})"),
    (".h5 .hdf5", "HDF5", "read_hdf({0!r})"),
    (".html .htm", "a web page", "read_html({0!r})[0]"),
    (".xml", "XML", "read_xml({0!r})"),
    (
        ".db .sqlite .sqlite3",
        "a database",
        "read_sql('select * from TABLE', sqlite3.connect({0!r}))",
    ),
    (".zip .tar .tgz .7z .rar", "an archive", "unpack it, and give the table that is in it"),
    (
        ".doc .docx .odt .rtf .pdf .ppt .pptx",
        "a document",
        "copy its table into a spreadsheet, and save that as .xlsx or as CSV",
    ),
    (
        ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .heic .svg",
        "a picture",
        "type its table into a spreadsheet, and save that as .xlsx or as CSV",
    ),
)
# What files begin with whose name says something else.
_BEGINNINGS = {
    b"PK\x03\x04": ("a workbook or an archive", "let its name end in .xlsx, or unpack it"),
    b"PAR1": ("Parquet", "let its name end in .parquet"),
    b"\x1f\x8b": ("packed", "let its name end in .gz"),
    b"\xd0\xcf\x11\xe0": ("a workbook or document of old", "save it as .xlsx or as CSV"),
    b"%PDF": ("a document (PDF)", "copy its table into a spreadsheet, and save that as CSV"),
    b"SQLite format 3": ("a database", "let its name end in .db"),
    b"\xff\xfe": ("text in UTF-16", "save it as CSV in UTF-8"),
    b"\xfe\xff": ("text in UTF-16", "save it as CSV in UTF-8"),
}


def refuse_other(path: Path, role: str, ending: str) -> None:
    """Refuse a file that is no table by its ending.

    :param role: what its rows would be.
    :raises ValueError: with what makes a table of it.
    """
    for endings, what, remedy in _KINDS:
        if ending in endings.split():
            form = _FRAME.format(remedy, "{1}") if remedy.startswith("read_") else remedy
            raise ValueError(
                f"The {role} file {str(path)!r} is {what} ({ending}), which is not read; "
                f"{form.format(path.name, path.stem)}."
            )


def refuse_binary(path: Path, role: str) -> None:
    """Refuse a file that is no text, whatever its name says.

    :param role: as above.
    :raises ValueError: with what it is by its first bytes.
    """
    try:
        with path.open("rb") as file:
            first = file.read(16)
    except OSError:
        return  # which the reader says
    for beginning, (what, remedy) in _BEGINNINGS.items():
        packed = what == "packed" and path.suffix.lower() == ".gz"
        if first.startswith(beginning) and not packed:
            raise ValueError(
                f"The {role} file {str(path)!r} is {what} by its first bytes, whatever its name "
                f"says; {remedy}."
            )
