"""`sparse-prefgp ask`: a page that asks people which of two things they prefer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import typer

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output
from sparse_prefgp.cli.output_options import check_file
from sparse_prefgp.cli.shared_options import repeated
from sparse_prefgp.support.checks import check_choice
from sparse_prefgp.support.extras import needed
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.words import counted, escaped, shortened, some_of
from sparse_prefgp.workflow.fit_sources import Sources
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = "Example: sparse-prefgp ask --media photos --out votes"
# Where the votes of the demo go, unless somebody says.
DEMO = Path("demo_votes")
# As `analysis.suggestion.SCORES`, which takes seconds to import.
SCORES = ("settle", "bald", "variance", "eubo", "thompson")
# A name or an address, and a port.
_HOST = r"([\w.-]+|\[[\da-fA-F:.]+\])(:\d+)?"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def until_of(text: str) -> tuple[int | None, float | None]:
    """Answers, or seconds: `300`, `45min`.

    :raises ValueError: it is neither.
    """
    match = re.fullmatch(r"([0-9]{1,9})\s*(m|min|minutes)?", text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(
            f"{shortened(text)} is no number of answers or of minutes, of at most nine digits; "
            "give 300 or 45min."
        )
    return (None, 60.0 * int(match[1])) if match[2] else (int(match[1]), None)


@option_class
class AskOptions:
    """What is asked, of whom, and where answers go."""

    items: Path | None = option(excludes="demo")
    """What to ask about, a row each: the column item_id, else the first, names them; the page shows
    all others.
    """
    media: Path | None = option(excludes="demo")
    """A folder of pictures: what to ask about, or, with --items, those that a column names."""
    text: Sequence[str] = same_as(Sources, "text", panel=None, needs="items")
    """Columns of texts from which the model is to learn, besides those of numbers and categories.
    """
    demo: bool = option(False)
    """Ask about shapes that the page draws; no file is needed."""
    out: Path | None = option()
    """Folder for the votes, also one of before, to add to; fit and leaderboard read it."""
    question: str = option("Which do you prefer?")
    """Stands above each pair."""
    ties: bool = option(False)
    """Items may be called equal."""
    people: Path | None = option()
    """A table of people: the column name, else the first. Each gets a link of their own, and nobody
    else is let in.
    """
    repeat: bool = option(False)
    """A person may get a pair again."""
    score: str | None = option()
    """How pairs are chosen, as for suggest; by default settle where only names are known, else
    bald.
    """
    top: int = option(5, least=1)
    """How many first ones are to be settled."""
    explore: float = option(0.1, least=0.0, most=1.0)
    """Share of random pairs among those that are chosen."""
    closest: float = option(0.5, least=0.5, below=1.0)
    """Leave out pairs whose better one is expected to win with a smaller chance than this, such as
    0.55: people who are not trained cannot tell them apart.
    """
    until: tuple[int | None, float | None] | None = option(
        kind=str, parse=until_of, metavar="ANSWERS|MINUTES"
    )
    """End after so many answers, or minutes: 300, 45min."""
    port: int = option(8421, least=0, most=65535)
    """Of this machine; 0 for any that is free."""
    host: str = option("127.0.0.1")
    """Where to listen. By default this machine alone reaches the page; 0.0.0.0 lets others in, by a
    link with a key.
    """
    allow_host: tuple[str, ...] = repeated()
    """A further name by which the page is reached, as behind a proxy; repeatable."""
    base_path: str | None = option()
    """Path of the page behind a proxy, such as /votes."""
    no_browser: bool = option(False)
    """Do not open a browser."""
    forget: str | None = option(needs="out", excludes=("items", "media", "demo"))
    """Remove this person and their answers from the folder, and end; the model is learned again
    without them.
    """
    seed: int = same_as(FitSettings, "seed")


@command()
def ask(console: Output, options: AskOptions) -> None:
    """Ask people which of two things they prefer, on a page in the browser."""
    from sparse_prefgp.ask.memory import said_of_names
    from sparse_prefgp.ask.running import Links, forget, listening_at, open_browser, serve
    from sparse_prefgp.ask.settings import PageSettings, host_of
    from sparse_prefgp.ask.store import VoteStore
    from sparse_prefgp.ask.things import MEDIA, demo_things, names_of_people, things_of
    from sparse_prefgp.disk.folders import held

    check_file(options.people, True)
    if options.score is not None:
        check_choice("--score", options.score, SCORES)
    folder = options.out or (DEMO if options.demo else None)
    if folder is None:
        raise ValueError("Nowhere to keep the votes was given; give a folder (--out votes).")
    say = console.say
    if options.forget is not None:
        with held(folder, "ask"):
            removed = forget(folder, options.forget)
        say(f"{options.forget} and {counted(removed, 'answer')} were removed from {folder}.")
        console.finish({"forgotten": options.forget, "answers": removed}, None)
        return
    needed("uvicorn", "uvicorn", "A page", "ask")
    needed("starlette", "Starlette", "A page", "ask")
    things = (
        demo_things() if options.demo else things_of(options.items, options.media, options.text)
    )
    names = names_of_people(options.people) if options.people is not None else ()
    address = _address_of(options.host)
    same = ("question", "ties", "repeat", "explore", "closest", "score", "text", "seed")
    settings = PageSettings(
        **{name: getattr(options, name) for name in same},
        top=min(options.top, len(things.names) - 1),
        hosts=_hosts(options, address),
        open_to_all=options.host in _LOOPBACK and not (names or options.allow_host),
        invited=names,
        address=host_of(options.allow_host[0]) if options.allow_host else address,
        base_path=_path(options.base_path),
        most_answers=options.until[0] if options.until else None,
    )

    def say_link(sentence: str) -> None:
        """Without its links nobody reaches the page, however little it is to say."""
        if console.manners.silent:
            typer.echo(escaped(sentence), err=console.manners.as_json)
        else:
            say(sentence)

    addresses: Record = {}

    def began(links: Links) -> None:
        # Where people have links of their own, the page's lets nobody in.
        page = None if links.people else links.page
        addresses.update(page=page, results=links.results, people=dict(links.people))
        number = store.number()
        there = f", which has {counted(number, 'answer')}" if number else ""
        say(f"Asking about {len(things.names):,} items. Votes go to {folder}{there}.")
        if things.left_out:
            say(
                f"Left out of {options.media}: {some_of([*map(shortened, things.left_out)])}; "
                f"pictures are files of its own, {' '.join(MEDIA)}."
            )
        say(f"The model learns from {things.learned_from}.")
        if late := said_of_names(things.items):
            say(late)
        say_link(f"Page: {links.page}")
        for name, link in links.people.items():
            say_link(f"  {name}: {link}")
        say_link(f"Results, for you alone: {links.results}")
        say("Ctrl-C ends it.")
        if not options.no_browser and options.host in _LOOPBACK:
            unopened = f"No browser could be opened here; open {links.here} yourself."
            open_browser(links.here, lambda: say(unopened))

    # Whatever may be refused is looked at before anything is made on disk.
    with (
        closing(listening_at(options.host, options.port)) as listening,
        held(folder, "ask"),
        closing(VoteStore(folder, names)) as store,
    ):
        if store.joined_before:
            say(
                f"Before without a link: {some_of([*map(shortened, store.joined_before)])}; their "
                "answers stay under these names, for which only the links answer from now on."
            )
        collected = serve(
            store,
            things,
            settings,
            listening=listening,
            host=options.host,
            seconds=options.until[1] if options.until else None,
            began=began,
        )
    people = counted(collected.people, "person", "people")
    say(f"{counted(collected.answers, 'answer')} by {people} in {folder}.")
    if collected.answers:
        say(f"Next: sparse-prefgp leaderboard {folder} --out board")
    result = {"links": addresses, "answers": collected.answers, "answered_by": collected.people}
    console.finish({"folder": str(folder), **result}, None)


def _hosts(options: AskOptions, address: str) -> tuple[str, ...]:
    """Names by which the page may be reached: what it listens on, and what was allowed."""
    import socket

    from sparse_prefgp.ask.settings import host_of

    for name in options.allow_host:
        if not re.fullmatch(_HOST, name, re.ASCII):
            raise ValueError(
                f"--allow-host is {shortened(name)}; give a name alone, such as votes.example.org."
            )
    names: list[Any] = [*_LOOPBACK, *map(host_of, options.allow_host)]
    if options.host not in _LOOPBACK:
        names += [options.host, address, socket.gethostname(), socket.getfqdn()]
        with suppress(OSError):  # a machine that does not know its own name
            names += [one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None)]
    return tuple(dict.fromkeys(map(str, names)))


def _address_of(host: str) -> str:
    """Of a host, as others reach it; nothing is sent.

    :raises ValueError: the machine has no network.
    """
    import socket

    if host not in ("0.0.0.0", "::"):
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as error:
            raise ValueError(
                f"By which address others reach this machine is not known ({error.strerror}); "
                f"give it in place of {host} (--host), such as 192.168.1.20."
            ) from None
        return str(probe.getsockname()[0])


def _path(text: str | None) -> str:
    if text is None:
        return ""
    path = f"/{text.strip('/')}" if text.strip("/") else ""
    if not re.fullmatch(r"(/(?!\.+(/|$))[\w.~-]+)*", path, re.ASCII):
        raise ValueError(f"--base-path is {text!r}; give a path such as /votes.")
    return path
