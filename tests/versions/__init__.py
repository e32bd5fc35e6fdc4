"""In other environments: `make test-versions` and `make test-package` install those."""
