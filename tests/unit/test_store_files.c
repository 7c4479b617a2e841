/* Which files a store opens, what it says of the others, and how an older one becomes a newer one. */
#define _GNU_SOURCE /* setgroups, unshare */
#include "support/faulty_vfs.h"
#include "support/stores.h"
#include "support/support.h"

#include "store/store_internal.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void fill(const struct stores_fixture *fixture, const char *path)
{
    struct sp_error err = {0};
    (void)fixture;
    if (!stores_fill(&(struct stores_work){.path = path, .n_points = STORES_POINTS, .step = 1}, &err)) {
        fail_msg("%s", err.text);
    }
}

static void assert_refused(const struct stores_fixture *fixture, const char *path, const char *text)
{
    struct store *store = (struct store *)1;
    struct sp_error err = {0};
    assert_false(store_open(fixture->arena, path, &store, &err));
    assert_null(store);
    assert_int_equal(err.kind, SP_ERROR_IO);
    assert_error_contains(&err, path);
    assert_error_contains(&err, text);
}

static uint64_t hash_file(const char *path)
{
    char bytes[65536];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    return sp_fnv1a(SP_FNV1A_BASIS, bytes, size);
}

static const char *integer_of(const struct stores_fixture *fixture, const char *sql)
{
    return stores_sql(fixture->arena, fixture->path, sql);
}

/* ---- where it lies ---------------------------------------------------------------------------------------------- */

static void restore_variable(const char *name, const char *value)
{
    assert_int_equal(value == NULL ? unsetenv(name) : setenv(name, value, 1), 0);
}

static void default_is_in_the_data_folder_and_its_folders_are_made(void **state)
{
    struct stores_fixture *fixture = *state;
    const char *data = getenv("XDG_DATA_HOME");
    const char *kept = data == NULL ? NULL : sp_strdup(fixture->arena, data);
    const char *folder = sp_format(fixture->arena, "%s/a/b", fixture->folder);
    assert_int_equal(setenv("XDG_DATA_HOME", folder, 1), 0);
    struct store *store = NULL;
    struct sp_error err = {0};
    assert_true(store_open_existing(fixture->arena, NULL, &store, &err));
    assert_null(store);
    assert_int_equal(access(sp_format(fixture->arena, "%s/a", fixture->folder), F_OK), -1);
    assert_true(store_open(fixture->arena, NULL, &store, &err));
    assert_string_equal(store_path(store), sp_format(fixture->arena, "%s/seqplan/seqplan.db", folder));
    assert_null(store_remark(store));
    store_close(store);
    struct stat status;
    assert_int_equal(stat(folder, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_true(store_open_existing(fixture->arena, NULL, &store, &err));
    assert_non_null(store);
    store_close(store);
    restore_variable("XDG_DATA_HOME", kept);
    assert_int_equal(remove(sp_format(fixture->arena, "%s/seqplan/seqplan.db", folder)), 0);
    assert_int_equal(rmdir(sp_format(fixture->arena, "%s/seqplan", folder)), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void default_below_a_file_names_the_folder(void **state)
{
    struct stores_fixture *fixture = *state;
    const char *data = getenv("XDG_DATA_HOME");
    const char *kept = data == NULL ? NULL : sp_strdup(fixture->arena, data);
    const char *file = temp_file(fixture->arena, fixture->folder, "file", "x", 1);
    assert_int_equal(setenv("XDG_DATA_HOME", sp_format(fixture->arena, "%s/data", file), 1), 0);
    struct store *store = NULL;
    struct sp_error err = {0};
    assert_false(store_open(fixture->arena, NULL, &store, &err));
    restore_variable("XDG_DATA_HOME", kept);
    assert_int_equal(err.kind, SP_ERROR_IO);
    assert_error_contains(&err, "/file/data/seqplan/seqplan.db: the folder '");
    assert_error_contains(&err, "/file/data' cannot be made: Not a directory; make it, or give another file with --db");
}

static void path_without_a_folder_is_in_the_current_one(void **state)
{
    struct stores_fixture *fixture = *state;
    char here[4096];
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(fixture->folder), 0);
    fill(fixture, ":memory:");
    struct store *store = NULL;
    struct sp_error err = {0};
    assert_true(store_open_existing(fixture->arena, ":memory:", &store, &err));
    assert_int_equal(chdir(here), 0);
    assert_non_null(store);
    store_close(store);
    assert_int_equal(access(sp_format(fixture->arena, "%s/:memory:", fixture->folder), F_OK), 0);
}

static void path_that_cannot_be_says_why(void **state)
{
    struct stores_fixture *fixture = *state;
    const char *file = temp_file(fixture->arena, fixture->folder, "file", "x", 1);
    assert_refused(fixture, sp_format(fixture->arena, "%s/x.db", file),
                   "cannot be opened: expected a file in a folder");
    assert_refused(fixture, sp_format(fixture->arena, "%s/none/x.db", fixture->folder), "No such file or directory)");
    assert_refused(fixture, fixture->folder, "Is a directory)");
    assert_refused(fixture, "/proc/x.db", "cannot be opened: ");
    assert_refused(fixture, "/dev/full", "/dev/full: ");
    struct store *store = NULL;
    struct sp_error err = {0};
    assert_false(store_open(fixture->arena, "", &store, &err));
    assert_int_equal(err.kind, SP_ERROR_USAGE);
    assert_string_equal(err.text, "--db: expected a file, found \"\"");
}

/* ---- whose file it is ------------------------------------------------------------------------------------------- */

static void file_of_no_database_is_left_as_it_is(void **state)
{
    struct stores_fixture *fixture = *state;
    char text[6100];
    for (size_t size = 61; size <= sizeof(text); size *= 10) {
        memset(text, 'q', sizeof(text));
        const char *path = temp_file(fixture->arena, fixture->folder, "text.db", text, size);
        uint64_t before = hash_file(path);
        assert_refused(fixture, path, "is no SQLite database: give another file with --db");
        assert_true(hash_file(path) == before);
    }
}

static void database_of_another_program_is_left_as_it_is(void **state)
{
    static const char *const contents[] = {
        "CREATE TABLE bookmarks (url TEXT)",
        "PRAGMA application_id = 1196444487",
        "PRAGMA user_version = 3; CREATE TABLE sweeps (id INTEGER)",
        "PRAGMA journal_mode = WAL; CREATE TABLE bookmarks (url TEXT)",
    };
    struct stores_fixture *fixture = *state;
    for (size_t i = 0; i < SP_COUNT_OF(contents); i++) {
        (void)integer_of(fixture, contents[i]);
        uint64_t before = hash_file(fixture->path);
        assert_refused(fixture, fixture->path, "is a SQLite database of another program (application id ");
        assert_true(hash_file(fixture->path) == before);
        assert_int_equal(remove(fixture->path), 0);
    }
}

static void newer_version_is_refused_with_both_and_left_as_it_is(void **state)
{
    struct stores_fixture *fixture = *state;
    fill(fixture, fixture->path);
    (void)integer_of(fixture, "PRAGMA user_version = 61");
    uint64_t before = hash_file(fixture->path);
    assert_refused(fixture, fixture->path,
                   sp_format(fixture->arena,
                             "is a store of version 61, and this seqplan knows versions up to %d: use a newer seqplan, "
                             "or give another file with --db",
                             store_schema.version));
    assert_true(hash_file(fixture->path) == before);
}

static void empty_file_becomes_a_store(void **state)
{
    struct stores_fixture *fixture = *state;
    (void)temp_file(fixture->arena, fixture->folder, "runs.db", "", 0);
    fill(fixture, fixture->path);
    int64_t n_rows = 0;
    struct sp_error err = {0};
    assert_true(stores_check(fixture->path, STORES_POINTS, &n_rows, &err));
    assert_int_equal(n_rows, STORES_POINTS);
    assert_string_equal(integer_of(fixture, "PRAGMA journal_mode"), "wal");
    assert_string_equal(integer_of(fixture, "PRAGMA application_id"), "1936814188");
    assert_string_equal(integer_of(fixture, "SELECT count(*) FROM pragma_table_list WHERE strict AND schema = 'main'"),
                        "4");
}

/* ---- versions --------------------------------------------------------------------------------------------------- */

/* A file of every version that was released, as that version wrote it. A new version adds its own. */
#define SWEEPS_OF_1                                                                                                    \
    "PRAGMA journal_mode = WAL; PRAGMA application_id = 0x7371706c;"                                                   \
    "CREATE TABLE sweeps (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, command TEXT NOT NULL,"      \
    " version TEXT NOT NULL, data_hash TEXT NOT NULL, n_points INTEGER NOT NULL CHECK (n_points > 0),"                 \
    " n_rows INTEGER NOT NULL CHECK (n_rows BETWEEN 0 AND n_points), begun_at TEXT NOT NULL, changed_at TEXT NOT "     \
    "NULL,"                                                                                                            \
    " checksum INTEGER NOT NULL) STRICT;"                                                                              \
    "CREATE TABLE sweep_rows (sweep_id INTEGER NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,"                     \
    " point INTEGER NOT NULL CHECK (point >= 0), json TEXT NOT NULL, checksum INTEGER NOT NULL,"                       \
    " PRIMARY KEY (sweep_id, point)) STRICT;"                                                                          \
    "INSERT INTO sweeps VALUES (3, '5f3a', 'plan --gpus 96', '0.1.0', '9e37', 61, 2, '2026-11-29T18:57:16Z',"          \
    " '2026-11-29T19:03:07Z', 590216190127617544);"                                                                    \
    "INSERT INTO sweep_rows VALUES (3, 6, '{\"fits\": true}', 3880162276428626583), (3, 37, '[3, 5]', "                \
    "6430900661977890598);"
static const char *const released[] = {
    /* 1 */
    SWEEPS_OF_1 "PRAGMA user_version = 1;",
    /* 2 */
    SWEEPS_OF_1
    "CREATE TABLE measurement_runs (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE,"
    " profile TEXT NOT NULL, version TEXT NOT NULL, machine TEXT NOT NULL,"
    " n_planned INTEGER NOT NULL CHECK (n_planned >= 0), n_rows INTEGER NOT NULL CHECK (n_rows >= 0),"
    " n_refused INTEGER NOT NULL CHECK (n_refused BETWEEN 0 AND n_rows),"
    " is_finished INTEGER NOT NULL CHECK (is_finished IN (0, 1)), begun_at TEXT NOT NULL, changed_at TEXT NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE measurements (run_id INTEGER NOT NULL REFERENCES measurement_runs (id) ON DELETE CASCADE,"
    " key TEXT NOT NULL, position INTEGER NOT NULL CHECK (position >= 0),"
    " is_refused INTEGER NOT NULL CHECK (is_refused IN (0, 1)), json TEXT NOT NULL, checksum INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, key)) STRICT;"
    "INSERT INTO measurement_runs VALUES (5, 'c0ffee', '--quick', '0.2.0', '{\"gpu\": \"H200\"}', 61, 2, 1, 0,"
    " '2026-11-29T19:00:00Z', '2026-11-29T19:03:07Z', 1620755054923664870);"
    "INSERT INTO measurements VALUES (5, 'copy 1GiB', 0, 0, '{\"median\": 0.5}', 2552860019267905350),"
    " (5, 'gemm m=61', 1, 1, '{\"reason\": \"spread\"}', 3442161212419251718);"
    "PRAGMA user_version = 2;",
};

static bool collect(void *user, int64_t point, const char *json, struct sp_error *err)
{
    (void)err;
    char *text = user;
    size_t length = strlen(text);
    (void)snprintf(text + length, 200 - length, "%lld:%s;", (long long)point, json);
    return true;
}

static bool collect_measurement(void *user, const struct store_measurement *row, struct sp_error *err)
{
    (void)err;
    char *text = user;
    size_t length = strlen(text);
    (void)snprintf(text + length, 200 - length, "%s:%s%s;", row->key, row->is_refused ? "refused " : "", row->json);
    return true;
}

/* Version 2 brought runs of measurements: a file of version 1 has none. */
static void assert_measurements(struct stores_fixture *fixture, size_t version)
{
    struct store *store = NULL;
    struct sp_error err = {0};
    const struct store_run run = {"c0ffee", "--quick", "0.2.0", "{\"gpu\": \"H200\"}"};
    int64_t id = 0;
    char text[200] = "";
    bool is_good = store_open(fixture->arena, fixture->path, &store, &err) && store_run_begin(store, &run, &id, &err) &&
                   store_measurements_visit(store, id, collect_measurement, text, &err);
    store_close(store);
    if (!is_good) {
        fail_msg("version %zu: %s", version, err.text);
    }
    assert_int_equal(id, version == 1 ? 4 : 5);
    assert_string_equal(text,
                        version == 1 ? "" : "copy 1GiB:{\"median\": 0.5};gemm m=61:refused {\"reason\": \"spread\"};");
}

static void file_of_every_released_version_opens_with_its_rows(void **state)
{
    struct stores_fixture *fixture = *state;
    assert_int_equal(SP_COUNT_OF(released), store_schema.version); /* a new version needs its file here */
    for (size_t i = 0; i < SP_COUNT_OF(released); i++) {
        (void)integer_of(fixture, released[i]);
        struct store *store = NULL;
        struct sp_error err = {0};
        const struct store_sweep sweep = {"5f3a", "plan --gpus 96", "0.1.0", "9e37", 61};
        int64_t id = 0;
        char text[200] = "";
        bool is_good = store_open(fixture->arena, fixture->path, &store, &err) &&
                       store_sweep_begin(store, &sweep, &id, &err) && store_rows_visit(store, id, collect, text, &err);
        store_close(store);
        if (!is_good) {
            fail_msg("version %zu: %s", i + 1, err.text);
        }
        assert_int_equal(id, 3);
        assert_string_equal(text, "6:{\"fits\": true};37:[3, 5];");
        assert_measurements(fixture, i + 1);
        assert_int_equal(atoi(integer_of(fixture, "PRAGMA user_version")), store_schema.version);
        assert_int_equal(remove(fixture->path), 0);
    }
}

static const char *const steps[] = {
    "PRAGMA application_id = 0x7371706c; CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (61)",
    "ALTER TABLE a ADD COLUMN y TEXT NOT NULL DEFAULT 'six'",
    "CREATE TABLE b (z TEXT) STRICT; INSERT INTO b SELECT y FROM a",
};
static const char *const steps_with_a_bad_one[] = {
    "PRAGMA application_id = 0x7371706c; CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (61)",
    "ALTER TABLE a ADD COLUMN y TEXT NOT NULL DEFAULT 'six'; INSERT INTO nowhere VALUES (1)",
};

/* A store that is not prepared: its tables are those of a test. */
static bool migrate(struct stores_fixture *fixture, const char *const *migrations, int version, struct sp_error *err)
{
    struct store store = {.path = fixture->path, .busy_ms = STORE_BUSY_MS};
    assert_int_equal(sqlite3_open(fixture->path, &store.db), SQLITE_OK);
    bool is_good = store_migrate(&store, &(struct store_schema){migrations, version}, err);
    assert_int_equal(sqlite3_get_autocommit(store.db), 1);
    assert_int_equal(sqlite3_close(store.db), SQLITE_OK);
    return is_good;
}

static void migrations_lead_from_every_version_to_the_last(void **state)
{
    struct stores_fixture *fixture = *state;
    for (int from = 0; from <= (int)SP_COUNT_OF(steps); from++) {
        struct sp_error err = {0};
        assert_true(migrate(fixture, steps, from, &err));
        assert_int_equal(atoi(integer_of(fixture, "PRAGMA user_version")), from);
        assert_true(migrate(fixture, steps, (int)SP_COUNT_OF(steps), &err));
        assert_string_equal(integer_of(fixture, "PRAGMA user_version"), "3");
        assert_string_equal(integer_of(fixture, "SELECT x || y || z FROM a, b"), "61sixsix");
        assert_int_equal(remove(fixture->path), 0);
    }
}

static void migration_that_fails_leaves_the_version_before(void **state)
{
    struct stores_fixture *fixture = *state;
    struct sp_error err = {0};
    assert_false(migrate(fixture, steps_with_a_bad_one, (int)SP_COUNT_OF(steps_with_a_bad_one), &err));
    assert_error_contains(&err, "no such table: nowhere");
    assert_string_equal(integer_of(fixture, "PRAGMA user_version"), "1");
    assert_string_equal(integer_of(fixture, "SELECT count(*) FROM pragma_table_info('a')"), "1");
    assert_true(migrate(fixture, steps, (int)SP_COUNT_OF(steps), &err));
}

/* ---- what cannot be written ------------------------------------------------------------------------------------- */

enum { NOT_POSSIBLE = 77 }; /* exit code of a child that this machine does not let do it */

static bool count_row(void *user, int64_t point, const char *json, struct sp_error *err)
{
    (void)point;
    (void)json;
    (void)err;
    int64_t *n_seen = user;
    (*n_seen)++;
    return true;
}

/* Reading works, writing is refused. Ends the child with 1 where it is otherwise. */
static void expect_read_only(struct stores_fixture *fixture, const char *path)
{
    struct store *store = NULL;
    struct sp_error err = {0};
    int64_t n_seen = 0;
    const struct store_row row = {3, "{}"};
    bool is_read = store_open_existing(fixture->arena, path, &store, &err) && store != NULL &&
                   store_rows_visit(store, 1, count_row, &n_seen, &err);
    bool is_added = is_read && store_rows_add(store, 1, &row, 1, &err);
    store_close(store);
    (void)fprintf(stderr, "read %d, %lld rows, added %d: %s\n", is_read, (long long)n_seen, is_added, err.text);
    struct sp_error open_err = {0};
    bool is_opened =
        store_open(fixture->arena, path, &store, &open_err) && store_rows_add(store, 1, &row, 1, &open_err);
    (void)fprintf(stderr, "opened to write %d: %s\n", is_opened, open_err.text);
    bool is_worded = strstr(err.text, "cannot be written") != NULL && strstr(open_err.text, "cannot be ") != NULL &&
                     strstr(open_err.text, "--db") != NULL;
    if (!is_read || n_seen != STORES_POINTS || is_added || is_opened || !is_worded || open_err.kind != SP_ERROR_IO) {
        _exit(1);
    }
}

static void become_nobody(void)
{
    enum { NOBODY = 65534 };
    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) {
        _exit(NOT_POSSIBLE);
    }
}

static void look_as_nobody(void *data)
{
    struct stores_fixture *fixture = data;
    become_nobody();
    if (access(fixture->folder, X_OK) != 0) { /* the folder of temporary files is private */
        _exit(NOT_POSSIBLE);
    }
    expect_read_only(fixture, fixture->path);
}

static void assert_child(void (*body)(void *), struct stores_fixture *fixture)
{
    static char output[1 << 20]; /* all of it: a child whose reader is gone ends early */
    int code = run_in_child(body, fixture, output, sizeof(output));
    if (code == NOT_POSSIBLE) {
        print_message("# not possible here\n");
    } else if (code != 0) {
        print_error("child ended with %d after:\n", code);
        (void)fputs(output, stderr);
        fail();
    }
}

static void file_and_folder_without_permission_are_read_only(void **state)
{
    struct stores_fixture *fixture = *state;
    fill(fixture, fixture->path);
    assert_int_equal(chmod(fixture->path, 0444), 0);
    assert_int_equal(chmod(fixture->folder, 0555), 0);
    assert_child(look_as_nobody, fixture);
    assert_int_equal(chmod(fixture->folder, 0777), 0);
    assert_child(look_as_nobody, fixture); /* the file alone */
    assert_int_equal(chmod(fixture->path, 0666), 0);
    assert_int_equal(chmod(fixture->folder, 0555), 0);
    assert_child(look_as_nobody, fixture); /* the folder alone */
    assert_int_equal(chmod(fixture->folder, 0755), 0);
}

/* A small filesystem that only this process sees. */
static const char *mount_small(struct stores_fixture *fixture, const char *options)
{
    const char *at = sp_format(fixture->arena, "%s/mount", fixture->folder);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", at, "tmpfs", 0, options) != 0) {
        _exit(NOT_POSSIBLE);
    }
    return at;
}

static void look_on_read_only_media(void *data)
{
    struct stores_fixture *fixture = data;
    const char *at = mount_small(fixture, "size=8m");
    const char *path = sp_format(fixture->arena, "%s/a b%%?#.db", at);
    fill(fixture, path);
    const char *abandoned = sp_format(fixture->arena, "%s/killed.db", at); /* with its log */
    stores_abandon(abandoned, STORES_POINTS);
    if (mount(NULL, at, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0) {
        _exit(NOT_POSSIBLE);
    }
    expect_read_only(fixture, path);
    expect_read_only(fixture, abandoned);
}

static void store_on_read_only_media_is_read(void **state)
{
    struct stores_fixture *fixture = *state;
    const char *at = sp_format(fixture->arena, "%s/mount", fixture->folder);
    assert_int_equal(mkdir(at, 0755), 0);
    assert_child(look_on_read_only_media, fixture);
    assert_int_equal(rmdir(at), 0);
}

struct reported {
    int64_t n_done;
};

static void note_report(void *user, int64_t n_done)
{
    struct reported *reported = user;
    reported->n_done = n_done;
}

/* Fails, says so, and holds what it reported. Then there is room again, and it goes on. */
static void expect_full(const char *path, const char *text, void (*make_room)(void *), void *user)
{
    struct reported reported = {0};
    struct sp_error err = {0};
    const struct stores_work work = {
        .path = path, .n_points = 10 * STORES_POINTS, .step = 1, .report = note_report, .user = &reported};
    if (stores_fill(&work, &err)) {
        (void)fprintf(stderr, "the disk was large enough\n");
        _exit(1);
    }
    (void)fprintf(stderr, "%lld rows, then: %s\n", (long long)reported.n_done, err.text);
    if (strstr(err.text, text) == NULL || err.kind != SP_ERROR_IO || strstr(err.text, path) == NULL) {
        _exit(2);
    }
    make_room(user);
    int64_t n_rows = 0;
    struct sp_error check_err = {0};
    if (!stores_check(path, work.n_points, &n_rows, &check_err) || n_rows < reported.n_done) {
        (void)fprintf(stderr, "%lld rows are there %s\n", (long long)n_rows, check_err.text);
        _exit(3);
    }
    if (!stores_fill(&work, &check_err)) {
        (void)fprintf(stderr, "did not go on: %s\n", check_err.text);
        _exit(4);
    }
}

static void enlarge(void *user)
{
    if (mount(NULL, user, NULL, MS_REMOUNT, "size=16m") != 0) {
        _exit(NOT_POSSIBLE);
    }
}

static void fill_a_small_disk(void *data)
{
    struct stores_fixture *fixture = data;
    for (int kib = 4; kib <= 610; kib += kib < 120 ? 4 : 61) {
        char *at = sp_strdup(fixture->arena, mount_small(fixture, sp_format(fixture->arena, "size=%dk", kib)));
        expect_full(sp_format(fixture->arena, "%s/runs.db", at), "the disk is full: make room", enlarge, at);
        if (umount(at) != 0) {
            _exit(NOT_POSSIBLE);
        }
    }
}

static void full_disk_is_named_and_what_was_reported_is_kept(void **state)
{
    struct stores_fixture *fixture = *state;
    const char *at = sp_format(fixture->arena, "%s/mount", fixture->folder);
    assert_int_equal(mkdir(at, 0755), 0);
    assert_child(fill_a_small_disk, fixture);
    assert_int_equal(rmdir(at), 0);
}

static void lift_limit(void *user)
{
    struct rlimit limit = *(const struct rlimit *)user;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        _exit(NOT_POSSIBLE);
    }
}

static void write_under_a_limit(void *data)
{
    struct stores_fixture *fixture = data;
    struct rlimit before;
    (void)signal(SIGXFSZ, SIG_IGN);
    for (int kib = 4; kib <= 400; kib += kib < 60 ? 7 : 61) {
        if (getrlimit(RLIMIT_FSIZE, &before) != 0) {
            _exit(NOT_POSSIBLE);
        }
        struct rlimit limit = before;
        limit.rlim_cur = (rlim_t)kib * 1024 + 3;
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            _exit(NOT_POSSIBLE);
        }
        const char *path = sp_format(fixture->arena, "%s/limit%d.db", fixture->folder, kib);
        expect_full(path, "cannot be read or written: the disk failed, is full or is gone", lift_limit, &before);
    }
}

static void limit_on_the_size_of_files_is_named_and_what_was_reported_is_kept(void **state)
{
    struct stores_fixture *fixture = *state;
    assert_child(write_under_a_limit, fixture);
}

/* ---- beside others ---------------------------------------------------------------------------------------------- */

static void other_writer_that_does_not_end_is_named(void **state)
{
    struct stores_fixture *fixture = *state;
    fill(fixture, fixture->path);
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(fixture->path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    struct store *store = NULL;
    struct sp_error err = {0};
    assert_true(store_open(fixture->arena, fixture->path, &store, &err));
    store->busy_ms = 61;
    assert_int_equal(sqlite3_busy_timeout(store->db, store->busy_ms), SQLITE_OK);
    const struct store_row row = {3, "{}"};
    assert_false(store_rows_add(store, 1, &row, 1, &err));
    assert_int_equal(err.kind, SP_ERROR_IO);
    assert_error_contains(&err, "runs.db: another seqplan is writing (waited 0 s): run the same again when it is done");
    int64_t n_seen = 0;
    assert_true(store_rows_visit(store, 1, count_row, &n_seen, &err)); /* a reader waits for nobody */
    assert_int_equal(n_seen, STORES_POINTS);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    assert_true(store_rows_add(store, 1, &row, 1, &err));
    store_close(store);
}

static void filesystem_without_shared_memory_gets_a_remark(void **state)
{
    struct stores_fixture *fixture = *state;
    struct faulty_vfs faulty = {.fault = FAULT_NONE, .has_no_memory = true};
    faulty_vfs_install(&faulty);
    struct store *store = NULL;
    struct sp_error err = {0};
    bool is_good = store_open(fixture->arena, fixture->path, &store, &err);
    const char *remark = is_good ? store_remark(store) : NULL;
    store_close(store);
    faulty_vfs_remove();
    assert_true(is_good);
    assert_non_null(remark);
    assert_non_null(strstr(remark, "runs.db: this filesystem takes no write-ahead log"));
    fill(fixture, fixture->path); /* elsewhere it gets its log */
    assert_string_equal(integer_of(fixture, "PRAGMA journal_mode"), "wal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(default_is_in_the_data_folder_and_its_folders_are_made, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(default_below_a_file_names_the_folder, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(path_without_a_folder_is_in_the_current_one, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(path_that_cannot_be_says_why, stores_open_fixture, stores_close_fixture),
        cmocka_unit_test_setup_teardown(file_of_no_database_is_left_as_it_is, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(database_of_another_program_is_left_as_it_is, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(newer_version_is_refused_with_both_and_left_as_it_is, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(empty_file_becomes_a_store, stores_open_fixture, stores_close_fixture),
        cmocka_unit_test_setup_teardown(file_of_every_released_version_opens_with_its_rows, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(migrations_lead_from_every_version_to_the_last, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(migration_that_fails_leaves_the_version_before, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(file_and_folder_without_permission_are_read_only, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(store_on_read_only_media_is_read, stores_open_fixture, stores_close_fixture),
        cmocka_unit_test_setup_teardown(full_disk_is_named_and_what_was_reported_is_kept, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(limit_on_the_size_of_files_is_named_and_what_was_reported_is_kept,
                                        stores_open_fixture, stores_close_fixture),
        cmocka_unit_test_setup_teardown(other_writer_that_does_not_end_is_named, stores_open_fixture,
                                        stores_close_fixture),
        cmocka_unit_test_setup_teardown(filesystem_without_shared_memory_gets_a_remark, stores_open_fixture,
                                        stores_close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
