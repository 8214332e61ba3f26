"""The reference backend: torch operations on any device.

Shapes are static wherever they can be, so nothing here waits for a device except
`group_by_row`, which runs once per graph, and `compress` on the CPU, where there is
nothing to wait for. -1 means "none" in every array of edges, nodes or offsets.
"""
