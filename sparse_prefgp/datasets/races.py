"""Formula 1: who finished where, with driver and car, from F1DB, one file for each race."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.support.yaml_files import read_yaml

NOT_STARTED = "DNS"
_COLUMNS = ("position", "driverId", "constructorId", "gridPosition")

# SHA-256 of the results of each race, in the order in which they were driven.
_SUMS = """
07dad61ae2717cf573af424daa17a05f9424b61b19c396038163ba2eaa18cd17 2024/01-bahrain
e9ddc7336d6c296f0d2721a2211982004c515905d847324e93f3b71efc0ced6c 2024/02-saudi-arabia
e639b6eed40edeb8287772964b0e03af6af4d98f194d28155c1fb9241ab90084 2024/03-australia
2e09e44a41fbef6a72728305a5c9f86b126278c63d4db6a06c50d3c43193beac 2024/04-japan
3e97899cc1237e899ff5bb98ee2fd050d043a58fc076a3f0593995b99323af99 2024/05-china
883ff22c68e0ac4d145e66112ad3f1783d6ad17ef8641ec35eba54d75c82c477 2024/06-miami
2d4d2716f83637342e2dccf3378d0dd33ed1f3a223ed76323ec4c657d871e784 2024/07-emilia-romagna
902f8ec10edc184310b055dfee84926ccb17159a86be3037fd96f996e3e80db2 2024/08-monaco
38df2f8c91eadb925d9cda70f21b79d0ff8efc3b847214aac9810960f9075e9f 2024/09-canada
811290aa40cf8921eb9bdf2ac48e0b0e02c216f8ae26b8df1d01dc106b2b458f 2024/10-spain
0b1ba4ffa05eb2ad59b40bcebea982f38cc936038482ce23486725f49c846058 2024/11-austria
4e649c9584de08abfa6345bf9997ec56d1675984f98a4aa68e1a75fd411af955 2024/12-great-britain
1c6d4df00256b02e15e9ffe48ac6ea3dba6e3db72c29245dcd477453d059a226 2024/13-hungary
2af599f7235808fdea4b8dd13237f858267d8e5fba0755488e4c55b118ea5b69 2024/14-belgium
ab52d94bb352d093d7dee975a18ffda1bdc44c0eae1308b77bb8899b2f701d04 2024/15-netherlands
32beee70e28c6971530eb20bd4389f182576832f66c8a8f60b1fb60922a982d9 2024/16-italy
37d1d103463c40eaf322afb4ff8c46ca01feda660282e35a8a1af5bdf747b6be 2024/17-azerbaijan
62e1f33529dbebdb062feca33915fb52e12b015253e64db19199e800544e7075 2024/18-singapore
7c1d230ab89e80aee3ae5bb4a6a9819bef4d389ee4d5cfbf9e6a9dcbc73fe0f8 2024/19-united-states
377438e901a2005036f5a4b7efc6c7595debde74b059bae443263201b6fe3f52 2024/20-mexico
838fecfbf74ef3c87c33a3b35b68a1aeeac1f5cacb21136db0f4da613a421e50 2024/21-sao-paulo
30bd39350f3ef9a6e29390c9b7adcf1755c84c5711de385e3957d061fbb49839 2024/22-las-vegas
7de66d8bdd25d8b70da87d819abf14544f44696ec1730d58e83dabc3ab6d07c9 2024/23-qatar
b050edc9caa5ad711076a99a077dc7ff07bbf9abe1f2bdf54cdad7c4235e3a40 2024/24-abu-dhabi
5b73a0810090a3dad1b093f2872f5cf7c6cb75f489911c2b5d4723aaa19e7e88 2025/01-australia
dc9f8db55177ec642b9c50d329b3dd1a3b206c02a1b423450a790815fcacddad 2025/02-china
7aed0d3e6ed65cd78615cb480ab60e3b988eadcbe77fa4b9e91b4a0ba3376a65 2025/03-japan
616364127583c5b2f387361a2b9381bb2d87db4ca3cb96676726cbe79f772d55 2025/04-bahrain
404c831ba3e6a893c90edc74cb9c6f4a4b5ac8280452f01875842e1c13f7fb1c 2025/05-saudi-arabia
3250bd75a5648ec36b61984ed70df74baaede28e142da4febb2d46f01d32380d 2025/06-miami
259093a80792dceb6a70945bf5b05d4af7bab62d2a12187c66ce8e844356ca05 2025/07-emilia-romagna
10377ed874c1a5e718e8378c1b1684c2f2802215c19ca80aed114a9c69af68ad 2025/08-monaco
fce9ffa9d9920596ec249c5fc2a50d4a69d86b76019745eef6bd78deffe5632d 2025/09-spain
65765565f35f4aacea72461c2fd90ef683b936db59f232d3a70c2fc83613f00a 2025/10-canada
642a20f620c2295715eca758e2748d049ccd3f51c0e15543094d546400c7b071 2025/11-austria
196f0b2f902e61935f2ea86fdbddbc941e89af5bf0a0bd1d66ecc6fb0a70a889 2025/12-great-britain
56b0dba690c9446addb63a73f8268735a532a8147144b5c8d15a9e48a881cf23 2025/13-belgium
505e2a6c85dc5b8e543c4a68de4ad2f089c2e42d5a2fea613eeeae59d69406e9 2025/14-hungary
61f59f41b5396abbce68d6145ff83ddc3e0b77367db7523ec314a70f1466381c 2025/15-netherlands
d57ede4a510a0c34369767c08f8e1e4e52aeed74d78b90013782b5df1b418b0f 2025/16-italy
025301f9ab5728754daedd38c5d5aae1e5fa3046a73a1f8c7c6cf34b6a690a10 2025/17-azerbaijan
2cbb932e44c5f7058097bf7643350fd15ea5541d510a1f85668cf5e266409efd 2025/18-singapore
93d34bf6e6edc4ec47e6efeae8946d4b18d6ae71fc0057b9c32c93e5a017e6fc 2025/19-united-states
9384e0d928436b901ea615bb0f5d052149bf1d0c1c1bfa0d063ebffec23c8003 2025/20-mexico
8f0f3ef871500b839786c30977e0a274a51b0f6245f542b2ebf37e67371ed36a 2025/21-sao-paulo
c48c300a58197fec0a153b4e648bb40c5d276372a08584889179cf871d5f4cc8 2025/22-las-vegas
888da24d037796263a5cd118c6ef27efcbed0add18c2e003ce832a2f4e86bd70 2025/23-qatar
f55343f7b8aa7094df3b1c8f6ee175246491db13f66fa2c685dca9e046b9e2dd 2025/24-abu-dhabi
"""


def public_paths() -> dict[str, tuple[str, str]]:
    """Of each race the name of its file in the cache, its path in the repository and its sum."""
    found = {}
    for line in _SUMS.split("\n")[1:-1]:
        checksum, race = line.split()
        season, place = race.split("/")
        path = f"src/data/seasons/{season}/races/{place}/race-results.yml"
        found[f"{season}-{place}.yml"] = (path, checksum)
    return found


def tidy(files: Mapping[str, Path]) -> dict[str, Any]:
    """Items, a driver in the car of a season, and rankings, a row for each who started in a race.

    Races come in the order of their files' names. Those who did not finish, or were disqualified,
    have no rank; those who did not start are left out. Who starts from the pit lane has as many
    before him on the grid as start at all.

    :raises ValueError: a file that is no list of results, or a result that lacks an entry.
    :raises ModuleNotFoundError: PyYAML is not installed.
    """
    pd = require_pandas()
    rows = []
    for race, name in enumerate(sorted(files), 1):
        ranking = name.removesuffix(".yml")
        started = [x for x in _results(files[name]) if x["position"] != NOT_STARTED]
        for result in started:
            place, grid = result["position"], result["gridPosition"]
            car = f"{result['constructorId']} {ranking[:4]}"
            rows.append(
                {
                    "item_id": f"{result['driverId']} {car}",
                    "driver": result["driverId"],
                    "car": car,
                    "ranking": ranking,
                    "race": race,
                    "rank": place if isinstance(place, int) else None,
                    "grid": grid if isinstance(grid, int) else len(started),
                }
            )
    every = pd.DataFrame(rows).astype({"rank": "Int64"})
    items = every[["item_id", "driver", "car"]].drop_duplicates().reset_index(drop=True)
    return {
        "items.csv": items,
        "rankings.csv": every[["ranking", "race", "item_id", "rank", "grid"]],
    }


def _results(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    found = read_yaml(text, path.name, "Reading the results of races")
    if not isinstance(found, list) or not all(isinstance(x, dict) for x in found):
        raise ValueError(f"{path.name} is no list of results; give the public file.")
    for i, result in enumerate(found):
        for name in _COLUMNS:
            if name not in result:
                raise ValueError(
                    f"Result {i + 1} of {path.name} has no {name!r}; give the public file."
                )
    return found
