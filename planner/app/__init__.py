"""The planner's user interfaces: command line, explorer, web app, `%plan`, doctor."""
