"""The choice of a way goes by the cases that are most alike and by trying, and its numbers suit the graph."""

from __future__ import annotations

import pytest

from hinterland_papers.bam.plan import WAYS, Case, MeasuredRun, Way, choose, rank

SHORT, LONG = Case("bfs", 64, 4096, 0.25), Case("bfs", 8192, 4096, 0.25)


def rows(case: Case, best: Way) -> list[MeasuredRun]:
    return [MeasuredRun(case, way, 1.0 if way == best else 2.0) for way in WAYS]


def first(case: Case, table: list[MeasuredRun]) -> Way:
    return rank(case, table)[0]


def test_the_nearest_cases_decide() -> None:
    near = [SHORT._replace(list_bytes=size) for size in (48, 60, 80)]
    far = [LONG._replace(list_bytes=size) for size in (6000, 8000, 10_000)]
    table = [row for case in near for row in rows(case, Way("odt"))] + [row for case in far for row in rows(case, Way("warp"))]
    assert first(SHORT, table) == Way("odt")
    assert first(LONG, table) == Way("warp")
    assert first(SHORT._replace(line_bytes=64, list_bytes=128), table) == Way("warp")  # lists of two lines, as LONG's
    assert first(SHORT._replace(algorithm="cc"), table) == Way("odt")  # nothing is known
    assert first(LONG, []) == Way("odt")


def test_one_bad_case_does_not_decide_for_all() -> None:
    cases = [SHORT._replace(room=room) for room in (0.24, 0.25, 0.26)]
    table = [row for case in cases[:2] for row in rows(case, Way("odt"))] + rows(cases[2], Way("warp"))
    assert first(SHORT, table) == Way("odt")


def test_who_is_far_behind_somewhere_is_not_chosen() -> None:
    cases = [SHORT._replace(room=room) for room in (0.24, 0.25, 0.26)]
    seconds = {Way("coarsened", 4): (1.0, 1.0, 2.7), Way("odt"): (1.3, 1.3, 1.0)}
    table = [MeasuredRun(case, way, took[i]) for way, took in seconds.items() for i, case in enumerate(cases)]
    assert first(SHORT, table) == Way("odt")


def test_of_what_is_likely_the_fastest_is_left() -> None:
    likely = list(WAYS[::-1])
    table = [MeasuredRun(SHORT, way, 1.0 + likely.index(way)) for way in WAYS]
    took = {likely[0]: 3.0, likely[1]: 2.0, likely[2]: 5.0, likely[3]: 1.0, likely[4]: 4.0}  # no other is tried
    ran: list[Way] = []

    def seconds(way: Way) -> float:
        ran.append(way)
        return took[way]

    assert choose(SHORT, table, seconds) == likely[3]
    assert ran == [*likely[:5], likely[3], likely[1]]  # one fast run may be luck


def test_where_nothing_is_known_nothing_is_tried() -> None:
    def never(way: Way) -> float:
        raise AssertionError(way)

    assert choose(LONG, [], never) == Way("odt")


@pytest.mark.parametrize(
    ("way", "size"),
    [
        (Way("warp"), 1),
        (Way("coarsened", 1), 64),
        (Way("coarsened", 4), 256),
        (Way("transposed", 128), 128),
        (Way("odt"), 1024),
        (Way("odt-copied"), 1024),
    ],
)
def test_sizes_fill_lines(way: Way, size: int) -> None:
    assert way.size(SHORT, 4) == size


def test_a_graph_without_edges_and_a_cache_without_room() -> None:
    nothing = Case("bfs", 0, 4096, 0)
    assert first(nothing, rows(SHORT, Way("warp"))) == Way("warp") and first(SHORT, rows(nothing, Way("odt"))) == Way("odt")
    assert Way("coarsened", 1).size(nothing, 4) == 1024


def test_no_worker_is_without_a_vertex() -> None:
    assert Way("coarsened", 0.25).size(LONG, 4) == 1


@pytest.mark.parametrize("line_bytes", [512, 4096, 8192, 65536])
def test_a_tile_that_is_copied_has_room(line_bytes: int) -> None:
    case = Case("bfs", 60.0, line_bytes, 0.25)
    assert Way("odt-copied").size(case, 4) == min(line_bytes, 4096) // 4
    assert Way("odt").size(case, 4) == line_bytes // 4
