"""The model of power_loss.py, on traces of made-up publications. tests/publish/power_loss runs them."""

import unittest

import power_loss

ROOT = "/w/lake"


class Trace:
    """The lines of a trace of a publisher that does everything right, unless its methods are called otherwise."""

    def __init__(self):
        self.lines = []
        self.folders = {"/w"}

    def add(self, text):
        self.lines.append(f"7 {text}\n")

    def sync(self, path):
        self.add(f"fsync(3<{path}>) = 0")

    def folder(self, path, is_synced=True):
        around = path.rpartition("/")[0]
        if around not in self.folders:
            self.folder(around)
        self.folders.add(path)
        self.add(f'mkdir("{path}", 0777) = 0')
        if is_synced:
            self.sync(around)

    def put(self, name, is_synced=True, has_lasting_name=True):
        path = f"{ROOT}/{name}"
        folder = path.rpartition("/")[0]
        if folder not in self.folders:
            self.folder(folder)
        self.add(f'openat(AT_FDCWD</w>, "{path}#1", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0666) = 3<{path}#1>')
        self.add(f'write(3<{path}#1>, ""..., 5) = 5')
        if is_synced:
            self.sync(f"{path}#1")
        self.add(f'linkat(AT_FDCWD</w>, "{path}#1", AT_FDCWD</w>, "{path}", 0) = 0')
        if has_lasting_name:
            self.sync(folder)
        self.add(f'unlink("{path}#1") = 0')

    def errors(self):
        return power_loss.replayed(ROOT, [list(power_loss.events(self.lines))]).errors

    def table(self, name):
        self.put(f"app/{name}/metadata/ebb-1-a-m0.avro")
        self.put(f"app/{name}/metadata/v1.metadata.json")


class Model(unittest.TestCase):
    def assert_error(self, trace, text):
        errors = trace.errors()
        self.assertTrue(errors and text in errors[0], errors)

    def test_a_publication_that_syncs_everything_has_no_errors(self):
        trace = Trace()
        trace.put("app/t/data/ebb-1-a.parquet")
        trace.put("_ebb/app/monday/1/task-0.json")
        trace.table("t")
        trace.put("_ebb/app/monday.json")
        self.assertEqual(trace.errors(), [])
        for path in ("/w", ROOT, f"{ROOT}/app/t/data", f"{ROOT}/_ebb/app", f"{ROOT}/app/t/data/ebb-1-a.parquet#1"):
            without = Trace()
            without.lines = [line for line in trace.lines if f"fsync(3<{path}>" not in line]
            self.assertLess(len(without.lines), len(trace.lines), path)
            self.assertNotEqual(without.errors(), [], path)

    def test_a_file_must_have_its_content_before_it_gets_its_name(self):
        trace = Trace()
        trace.put("app/t/data/ebb-1-a.parquet", is_synced=False)
        self.assert_error(trace, "before its content")
        trace = Trace()
        trace.put("app/t/data/ebb-1-a.parquet")
        last = next(at for at, line in enumerate(trace.lines) if "linkat" in line)
        trace.lines.insert(last, f'7 write(3<{ROOT}/app/t/data/ebb-1-a.parquet#1>, ""..., 5) = 5\n')
        self.assert_error(trace, "before its content")

    def test_names_must_be_on_the_disk_before_the_commit_and_not_only_at_the_end(self):
        trace = Trace()
        trace.put("app/t/data/ebb-1-a.parquet", has_lasting_name=False)
        trace.table("t")
        trace.sync(f"{ROOT}/app/t/data")
        self.assert_error(trace, "v1.metadata.json gets its name while app/t/data/ebb-1-a.parquet could be lost")

    def test_the_folders_around_a_file_must_have_their_names_too(self):
        trace = Trace()
        trace.folder(f"{ROOT}/app/t/data", is_synced=False)
        trace.put("app/t/data/ebb-1-a.parquet")
        trace.put("app/t/metadata/v1.metadata.json")
        # The folder around both has been synced for metadata/, and with it the name data/.
        self.assertEqual(trace.errors(), [])
        trace.lines = [line for line in trace.lines if f"fsync(3<{ROOT}/app/t>" not in line]
        self.assert_error(trace, "the name data is not on the disk")

    def test_an_fsync_counts_for_what_was_there_when_it_began(self):
        trace = Trace()
        trace.put("app/t/data/ebb-1-a.parquet", has_lasting_name=False)
        at = next(at for at, line in enumerate(trace.lines) if "linkat" in line)
        trace.lines.insert(at, f"8 fsync(4<{ROOT}/app/t/data> <unfinished ...>\n")
        trace.add("+++ exited with 0 +++")
        trace.lines.append("8 <... fsync resumed>) = 0\n")
        trace.table("t")
        self.assert_error(trace, "ebb-1-a.parquet could be lost")

    def test_a_failed_fsync_does_not_count(self):
        trace = Trace()
        trace.put("app/t/data/ebb-1-a.parquet")
        trace.lines = [line.replace("#1>) = 0", "#1>) = -1 EIO (Input/output error)") for line in trace.lines]
        self.assert_error(trace, "before its content")

    def test_records_wait_for_the_objects_of_all_tables(self):
        for record in ("_ebb/app/monday.json", "_ebb/app/monday/1/task-0.json"):
            trace = Trace()
            trace.table("t")
            trace.put("app/u/metadata/v1.metadata.json", has_lasting_name=False)
            trace.put(record)
            trace.sync(f"{ROOT}/app/u/metadata")
            self.assert_error(trace, f"{record} gets its name while app/u/metadata/v1.metadata.json could be lost")

    def test_a_removed_record_must_not_come_back_while_tables_are_committed(self):
        for is_synced in (False, True):
            trace = Trace()
            trace.put("_ebb/app/monday.json")
            trace.add(f'unlink("{ROOT}/_ebb/app/monday.json") = 0')
            if is_synced:
                trace.sync(f"{ROOT}/_ebb/app")
            trace.table("t")
            if is_synced:
                self.assertEqual(trace.errors(), [])
            else:
                self.assert_error(trace, "_ebb/app/monday.json could come back")

    def test_an_object_must_stay_while_a_commit_of_its_table_could_be_lost(self):
        for is_lasting in (False, True):
            trace = Trace()
            trace.table("t")
            trace.put("app/t/metadata/v2.metadata.json", has_lasting_name=is_lasting)
            trace.add(f'unlink("{ROOT}/app/t/metadata/ebb-1-a-m0.avro") = 0')
            if is_lasting:
                self.assertEqual(trace.errors(), [])
            else:
                expected = "ebb-1-a-m0.avro is removed while app/t/metadata/v2.metadata.json could be lost"
                self.assert_error(trace, expected)

    def test_a_file_of_unknown_origin_is_no_file_of_the_model(self):
        trace = Trace()
        trace.add(f'rename("{ROOT}/a#1", "{ROOT}/a") = 0')
        self.assertRaises(AssertionError, trace.errors)


if __name__ == "__main__":
    unittest.main()
