# SPDX-License-Identifier: MIT OR Apache-2.0
"""The package's only compiled part. Without a compiler the package is installed all the same."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "wakepath_context._record",
            ["wakepath_context/_record.c"],
            depends=[
                f"wakepath_context/{name}.h"
                for name in ("callbacks", "ready", "shown_span", "turns", "wakepath_context", "wakepath_turns")
            ],
            optional=True,
        )
    ]
)
