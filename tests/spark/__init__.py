"""Tests of kfast.spark, which are skipped where there is no PySpark, or no Java."""

import pytest

pytest.importorskip("pyspark", reason="kfast.spark needs PySpark")
