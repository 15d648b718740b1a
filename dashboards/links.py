"""Where a row of one board leads: to the board of its node, or to what repairs do about it."""

from __future__ import annotations

NODE_UID, REPAIRS_UID = "nodeprep-node", "nodeprep-repairs"
KEPT = "${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"
# From a row that has a node's name.
NODE = "The board of this node", f"/d/{NODE_UID}?var-node=${{__data.fields.node}}&{KEPT}"
REPAIRS = "Repairs of this node", f"/d/{REPAIRS_UID}?var-node=${{__data.fields.node}}&{KEPT}"
# From the board of a node.
REPAIRS_HERE = "Repairs of this node", f"/d/{REPAIRS_UID}?${{node:queryparam}}&{KEPT}"
