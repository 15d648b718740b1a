"""The parts of a board: its variables, and panels with the settings that all of ours have.

A panel has 24 columns to share with its neighbours. Units are Grafana's ids. A colour with a meaning
is of Okabe and Ito's palette, which colour-blind readers tell apart. Lines whose names are not known before have
Grafana's, and the legend names them. No panel says by colour alone what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from grafana_foundation_sdk.builders import common, dashboard, stat, table, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards import queries

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
WIDTH = 24  # columns of Grafana's grid
GOOD, BAD, WARNING, UNKNOWN, NEUTRAL = "#009E73", "#D55E00", "#E69F00", "#999999", "#0072B2"
COUNT, SECONDS, HOURS, BITS, BYTES, RATE, SHARE = "none", "s", "suffix: h", "bps", "bytes", "cps", "percentunit"
STEP = "2m"
ALL = ".*"  # of a variable: also targets that lack the label

Panel = stat.Panel | table.Panel | timeseries.Panel


def query(expression: str, legend: str = "", *, now: bool = False, ref: str = "A") -> Dataquery:
    """One question to Prometheus: over the time of the board, or of `now` as a table."""
    asked = Dataquery().expr(expression).legend_format(legend or "__auto").ref_id(ref).datasource(DATASOURCE)
    if now:
        return asked.instant().format(PromQueryFormat.TIME_SERIES if legend else PromQueryFormat.TABLE)
    return asked.range()


def thresholds(*steps: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    """Colours from a value on; None is the beginning."""
    found = [models.Threshold(value=value, color=colour) for value, colour in steps]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(found)


def mappings(words: Mapping[str, tuple[str, str]]) -> list[models.ValueMap]:
    """Words and colours for values."""
    options = {
        value: models.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate(words.items())
    }
    return [models.ValueMap(options=options)]


def number(
    title: str,
    about: str,
    asked: Dataquery,
    *,
    unit: str = COUNT,
    width: int = 4,
    steps: Sequence[tuple[float | None, str]],
    height: int = 4,
) -> stat.Panel:
    """One number of now. A line of its past would cost fifty times as much, and end up to a step ago."""
    return (
        stat.Panel()
        .title(title)
        .description(about)
        .datasource(DATASOURCE)
        .unit(unit)
        .span(width)
        .height(height)
        .with_target(asked.instant())
        .thresholds(thresholds(*steps))
        .color_mode(common_models.BigValueColorMode.VALUE)
        .graph_mode(common_models.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def lines(
    title: str,
    about: str,
    asked: Iterable[Dataquery],
    *,
    unit: str = COUNT,
    width: int = 12,
    colours: Mapping[str, str] | None = None,
    stacked: bool = False,
    steps: bool = False,
    values: bool = True,
    interval: str = STEP,
) -> timeseries.Panel:
    """Values over time; by default their last and highest stand in the legend.

    `stacked` is for parts of a whole. `steps` are for what does not change between two samples. `interval` is the least
    time between two points: on a thousand nodes each point of a fleet costs milliseconds.
    """
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about)
        .datasource(DATASOURCE)
        .unit(unit)
        .span(width)
        .height(8)
        .line_width(2)
        .fill_opacity(30 if stacked or not values else 0)
        .show_points(common_models.VisibilityMode.AUTO)
        .interval(interval)
        .span_nulls(False)
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC))
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
        .legend(
            common.VizLegendOptions()
            .display_mode(common_models.LegendDisplayMode.TABLE if values else common_models.LegendDisplayMode.LIST)
            .placement(common_models.LegendPlacement.RIGHT)
            .calcs(["lastNotNull", "max"] if values else [])
            .show_legend(True)
        )
        .stacking(
            common.StackingConfig().mode(
                common_models.StackingMode.NORMAL if stacked else common_models.StackingMode.NONE
            )
        )
        .line_interpolation(
            common_models.LineInterpolation.STEP_AFTER if steps else common_models.LineInterpolation.LINEAR
        )
    )
    panel = panel.min(0)
    for name, colour in (colours or {}).items():
        panel = panel.override_by_name(name, [models.DynamicConfigValue("color", fixed(colour))])
    for one in asked:
        panel = panel.with_target(one)
    return panel


def rows(
    title: str,
    about: str,
    asked: Iterable[Dataquery],
    *,
    columns: Mapping[str, str],
    width: int = 12,
    height: int = 8,
    sort: str = "",
    descending: bool = True,
    units: Mapping[str, str] | None = None,
    words: Mapping[str, Mapping[str, tuple[str, str]]] | None = None,
    links: Mapping[str, tuple[str, str]] | None = None,
) -> table.Panel:
    """A table of series of now: a column for each label and value of `columns`, under the name that it gives there.

    `units`, `words` and `links` (a title and an address) are by the names of columns as they are shown.
    """
    targets = list(asked)
    panel = table.Panel().title(title).description(about).datasource(DATASOURCE).span(width).height(height).unit(COUNT)
    for one in targets:
        panel = panel.with_target(one)
    if len(targets) > 1:
        panel = panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    order = {name: index for index, name in enumerate(columns)}
    renamed = {name: shown for name, shown in columns.items() if name != shown}
    panel = panel.with_transformation(
        models.DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": list(columns)}})
    ).with_transformation(
        models.DataTransformerConfig(id_val="organize", options={"indexByName": order, "renameByName": renamed})
    )
    for name, unit in (units or {}).items():
        panel = panel.override_by_name(name, [models.DynamicConfigValue("unit", unit)])
    for name, said in (words or {}).items():
        panel = panel.override_by_name(
            name,
            [
                models.DynamicConfigValue("mappings", mappings(said)),
                models.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
            ],
        )
    for name, (shown, address) in (links or {}).items():
        panel = panel.override_by_name(name, [models.DynamicConfigValue("links", [{"title": shown, "url": address}])])
    if sort:
        panel = panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(descending)])
    return panel


def with_runbook(expression: str) -> str:
    """The series with one label more: the family of their check, which names a page of docs/runbooks."""
    return f'label_replace({expression}, "runbook", "$1", "check", "([a-z]+)[.].*")'


def runbook(runbooks: str) -> tuple[str, str]:
    """The link from such a label to its page."""
    return "The runbook of this check", f"{runbooks}/docs/runbooks/${{__value.raw}}.md"


def fixed(colour: str) -> dict[str, str]:
    return {"mode": "fixed", "fixedColor": colour}


def variable(
    name: str, label: str, metric: str, scope: Iterable[str] = (), *, many: bool = True
) -> dashboard.QueryVariable:
    """A variable with the values of a target's label. `scope` are the variables before it."""
    asked = ", ".join([f'job="{queries.JOB}"', *(f'{one}=~"${one}"' for one in scope)])
    found = (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(f"label_values({metric}{{{asked}}}, {name})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(many)
        .include_all(many)
    )
    if not many:
        return found
    return found.all_value(ALL).current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))


def place_variables() -> list[dashboard.QueryVariable]:
    """Where a fleet's nodes are: each one narrows the next."""
    names = {"cluster": "Cluster", "pool": "Pool", "zone": "Zone"}
    return [variable(name, label, "up", list(names)[:index]) for index, (name, label) in enumerate(names.items())]


def board(
    uid: str,
    title: str,
    about: str,
    *,
    runbooks: str,
    variables: Iterable[dashboard.QueryVariable],
    parts: Iterable[Panel],
) -> dashboard.Dashboard:
    """A board: the data source, the variables, the panels from left to right, and links to the others."""
    found = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(about)
        .tags([queries.JOB])
        .editable()
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-6h", "now")
        .refresh("1m")
        .timezone("browser")
        .link(
            dashboard.DashboardLink("nodeprep")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([queries.JOB])
            .keep_time(True)
            .include_vars(True)
        )
        .link(
            dashboard.DashboardLink("Runbooks")
            .type(models.DashboardLinkType.LINK)
            .url(f"{runbooks}/docs/runbooks/README.md")
            .target_blank(True)
        )
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for one in variables:
        found = found.with_variable(one)
    for index, part in enumerate(parts, 1):
        found = found.with_panel(part.id(index))
    return found
