"""Export a plan: as commands, code, manifests, links, reports and files."""

from planner.export.compose_file import compose
from planner.export.data_texts import csv, json, json_schema
from planner.export.kubernetes_manifest import kubernetes
from planner.export.links import link
from planner.export.plan_file import PlanFile, read_yaml, yaml
from planner.export.python_code import python
from planner.export.ray_data_code import ray_data
from planner.export.ray_manifests import ray_cluster, ray_job, ray_service
from planner.export.ray_serve_code import ray_serve, ray_serve_config
from planner.export.reading_links import ReadLink, read_link
from planner.export.report_html import html
from planner.export.report_markdown import markdown

__all__ = [
    "PlanFile",
    "ReadLink",
    "compose",
    "csv",
    "html",
    "json",
    "json_schema",
    "kubernetes",
    "link",
    "markdown",
    "python",
    "ray_cluster",
    "ray_data",
    "ray_job",
    "ray_serve",
    "ray_serve_config",
    "ray_service",
    "read_link",
    "read_yaml",
    "yaml",
]
