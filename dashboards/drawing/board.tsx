// Draws a board with Grafana's own React components, without a Grafana server. /board.json has the panels with their
// variables filled in, and the time; /api is Prometheus. Grafana's registry of field options is not published, so the
// options that our panels use are registered here. Transformations are those that our tables use.
import React, { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import {
  applyFieldOverrides,
  createTheme,
  dateTime,
  displayNameOverrideProcessor,
  FieldConfigOptionsRegistry,
  FieldType,
  getFieldDisplayValues,
  identityOverrideProcessor,
  numberOverrideProcessor,
  stringOverrideProcessor,
  ThemeContext,
  thresholdsOverrideProcessor,
  toDataFrame,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, Table, TimeSeries } from '@grafana/ui';

const COLUMN = 1600 / 24, ROW = 36, GAP = 8, HEAD = 56;
const theme = createTheme({ colors: { mode: 'dark' } });
const options = new FieldConfigOptionsRegistry();
const register = (id: string, process: any, custom = false) =>
  options.register({
    id: custom ? `custom.${id}` : id, path: id, name: id, isCustom: custom, process,
    shouldApply: () => true, override: (() => null) as any, editor: (() => null) as any, getItemsCount: () => 0,
  } as any);
register('unit', unitOverrideProcessor);
['min', 'max', 'decimals'].forEach((name) => register(name, numberOverrideProcessor));
['displayName', 'noValue'].forEach((name) => register(name, stringOverrideProcessor));
register('thresholds', thresholdsOverrideProcessor);
register('mappings', valueMappingsOverrideProcessor);
['color', 'links'].forEach((name) => register(name, identityOverrideProcessor));
['drawStyle', 'lineInterpolation', 'fillOpacity', 'lineWidth', 'stacking', 'showPoints', 'spanNulls', 'cellOptions', 'align',
  'hideFrom', 'axisPlacement', 'pointSize', 'gradientMode', 'inspect'].forEach((name) => register(name, identityOverrideProcessor, true));

async function ask(path: string, query: Record<string, string>) {
  const answer = await (await fetch(`/api/v1/${path}?${new URLSearchParams(query)}`)).json();
  if (answer.status !== 'success') throw new Error(answer.error);
  return answer.data.result as any[];
}

const legend = (text: string, labels: Record<string, string>) =>
  text.replace(/{{\s*(\w+)\s*}}/g, (_, name) => labels[name] ?? '') || JSON.stringify(labels);

// Rows of labels and values: "merge" joins those with the same labels, "filterFieldsByName" and "organize" choose columns.
async function tableOf(panel: any, to: number) {
  const rows = new Map<string, Record<string, any>>();
  const kinds: Record<string, FieldType> = {};
  for (const target of panel.targets) {
    const value = panel.targets.length > 1 ? `Value #${target.refId}` : 'Value';
    kinds[value] = FieldType.number;
    for (const one of await ask('query', { query: target.expr, time: String(to) })) {
      const { __name__, ...labels } = one.metric;
      const key = JSON.stringify(Object.entries(labels).sort());
      rows.set(key, { ...rows.get(key), ...labels, [value]: Number(one.value[1]) });
    }
  }
  const by = Object.fromEntries(panel.transformations.map((one: any) => [one.id, one.options]));
  const { indexByName: order, renameByName: names } = by.organize;
  const columns = [...by.filterFieldsByName.include.names].sort((a, b) => order[a] - order[b]);
  let found = [...rows.values()];
  for (const { displayName, desc } of panel.options.sortBy ?? []) {
    const name = columns.find((one) => (names[one] ?? one) === displayName)!;
    found = found.sort((a, b) => (desc ? b[name] - a[name] : a[name] - b[name]));
  }
  return [toDataFrame({
    fields: columns.map((name) => ({
      name: names[name] ?? name, type: kinds[name] ?? FieldType.string, config: {}, values: found.map((one) => one[name] ?? null),
    })),
  })];
}

async function linesOf(panel: any, from: number, to: number, step: number) {
  const frames: any[] = [];
  for (const target of panel.targets) {
    const found = target.instant
      ? (await ask('query', { query: target.expr, time: String(to) })).map((one) => ({ ...one, values: [one.value] }))
      : await ask('query_range', { query: target.expr, start: String(from), end: String(to), step: String(step) });
    for (const one of found) {
      const name = legend(target.legendFormat, one.metric);
      frames.push(toDataFrame({ refId: target.refId, name, fields: [
        { name: 'Time', type: FieldType.time, config: {}, values: one.values.map((value: any) => value[0] * 1000) },
        { name, type: FieldType.number, labels: one.metric, config: { displayNameFromDS: name }, values: one.values.map((value: any) => Number(value[1])) },
      ] }));
    }
  }
  return frames;
}

async function dataOf(panel: any, board: any) {
  const data = panel.type === 'table' ? await tableOf(panel, board.to) : await linesOf(panel, board.from, board.to, board.step);
  return applyFieldOverrides({ data, fieldConfig: panel.fieldConfig, replaceVariables: (text: string) => text, theme, fieldConfigRegistry: options, timeZone: 'utc' } as any);
}

function Body({ panel, board, frames, width, height }: any) {
  const empty = panel.type === 'table' ? !frames[0]?.length : !frames.length;
  if (empty) return <div style={{ color: '#8e8e8e', padding: 16, fontFamily: 'sans-serif', textAlign: 'center' }}>No data</div>;
  if (panel.type === 'timeseries') {
    const range = { from: dateTime(board.from * 1000), to: dateTime(board.to * 1000), raw: { from: 'now-6h', to: 'now' } } as any;
    return <TimeSeries frames={frames} structureRev={1} timeRange={range} timeZone="utc" width={width} height={height} legend={panel.options.legend} options={panel.options}>{() => null as any}</TimeSeries>;
  }
  if (panel.type === 'table') return <Table data={frames[0]} width={width} height={height} />;
  const values = getFieldDisplayValues({ data: frames, reduceOptions: { calcs: ['lastNotNull'], values: false }, fieldConfig: panel.fieldConfig, replaceVariables: (text: string) => text, theme, timeZone: 'utc', sparkline: true } as any);
  return <div style={{ display: 'flex' }}>{values.map((value: any, index: number) =>
    <BigValue key={index} theme={theme} width={width / values.length} height={height} value={{ ...value.display, title: '' }} sparkline={panel.options.graphMode === 'none' ? undefined : value.sparkline} colorMode={panel.options.colorMode} graphMode={panel.options.graphMode} />)}</div>;
}

function Panel({ panel, board }: any) {
  const [frames, setFrames] = useState<any>(null);
  const [error, setError] = useState('');
  useEffect(() => { dataOf(panel, board).then(setFrames, (why) => setError(String(why))); }, []);
  const { x, y, w, h } = panel.gridPos, width = w * COLUMN - GAP, height = h * ROW - GAP;
  return <div data-panel={panel.title} data-state={error ? 'error' : frames ? 'drawn' : 'waits'} style={{ position: 'absolute', left: x * COLUMN + GAP / 2, top: y * ROW + HEAD, width, height }}>
    <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
      {(inner: number, tall: number) => error ? <pre style={{ color: 'red' }}>{error}</pre> : frames && <Body panel={panel} board={board} frames={frames} width={inner} height={tall} />}
    </PanelChrome>
  </div>;
}

function Board() {
  const [board, setBoard] = useState<any>(null);
  useEffect(() => { fetch('/board.json').then((answer) => answer.json()).then(setBoard); }, []);
  if (!board) return null;
  return <ThemeContext.Provider value={theme}><GlobalStyles />
    <h2 style={{ color: '#ccc', margin: 0, padding: 14, fontFamily: 'sans-serif' }}>{board.shown}</h2>
    {board.panels.map((panel: any) => <Panel key={panel.id} panel={panel} board={board} />)}
  </ThemeContext.Provider>;
}
createRoot(document.getElementById('root')!).render(<Board />);
