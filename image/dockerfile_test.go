package main

import (
	"encoding/json"
	"go/version"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// instruction is an instruction of the Dockerfile: FROM, COPY, …
type instruction struct {
	name, arguments string
}

// stages returns the instructions of the Dockerfile, grouped by FROM.
func stages(t *testing.T) [][]instruction {
	t.Helper()

	text, err := os.ReadFile("../Dockerfile")
	require.NoError(t, err)

	var found [][]instruction

	comment := regexp.MustCompile(`(?m)^\s*#.*\n`)
	for line := range strings.Lines(strings.ReplaceAll(comment.ReplaceAllString(string(text), ""), "\\\n", " ")) {
		name, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}

		if name == "FROM" {
			found = append(found, nil)
		}

		require.NotEmpty(t, found, "the first instruction is FROM")

		last := len(found) - 1
		found[last] = append(found[last], instruction{name, strings.Join(strings.Fields(arguments), " ")})
	}

	return found
}

// of returns the arguments of the instructions with the given name.
func of(stage []instruction, name string) []string {
	var found []string

	for _, i := range stage {
		if i.name == name {
			found = append(found, i.arguments)
		}
	}

	return found
}

// TestDockerfile compares the Dockerfile with the results and checks of `make image`, since it
// cannot be built without a container engine.
func TestDockerfile(t *testing.T) {
	t.Parallel()

	found := stages(t)
	require.Len(t, found, 2)

	t.Run("the image", func(t *testing.T) {
		t.Parallel()

		image := found[1]
		require.Equal(t, []string{"gcr.io/distroless/static-debian12:nonroot"}, of(image, "FROM"))
		require.Equal(t, []string{user}, of(image, "USER"))
		require.Equal(t, []string{"/"}, of(image, "WORKDIR"))
		require.Empty(t, of(image, "CMD"))
		require.Empty(t, of(image, "ENV"))
		require.Empty(t, of(image, "RUN"), "the base has no shell")
		require.Equal(t, []string{"--from=build --chmod=0555 /src/bin/" + strings.Join(programs, " /src/bin/") + " /"}, of(image, "COPY"))

		require.Len(t, of(image, "ENTRYPOINT"), 1)

		var begins []string

		require.NoError(t, json.Unmarshal([]byte(of(image, "ENTRYPOINT")[0]), &begins), "the form without a shell")
		require.Equal(t, entrypoint, begins)
	})

	t.Run("the labels", func(t *testing.T) {
		t.Parallel()

		r := release{version: "v1.2.3", revision: "4567", created: time.Unix(89, 0).UTC()}
		arguments := strings.NewReplacer("$VERSION", r.version, "$REVISION", r.revision, "$CREATED", r.created.Format(time.RFC3339))
		labels := map[string]string{}

		for _, match := range regexp.MustCompile(`(\S+)="([^"]*)"`).FindAllStringSubmatch(strings.Join(of(found[1], "LABEL"), " "), -1) {
			labels[match[1]] = arguments.Replace(match[2])
		}

		require.Equal(t, r.labels(), labels)
		require.Subset(t, of(found[1], "ARG"), []string{"VERSION", "REVISION", "CREATED"}, "a stage sees only arguments that it names")
	})

	t.Run("the build", func(t *testing.T) {
		t.Parallel()

		build := found[0]
		require.Regexp(t, `^--platform=\$BUILDPLATFORM golang:\S+ AS build$`, of(build, "FROM")[0], "it compiles for other platforms, and emulates none")
		require.Subset(t, of(build, "ARG"), []string{"TARGETOS", "TARGETARCH", "VERSION", "REVISION"})
		require.Equal(t, []string{
			"go mod download",
			"GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION COMMIT=$REVISION",
		}, of(build, "RUN"))
	})
}

// TestBuildFlags checks the only place that defines the build flags.
func TestBuildFlags(t *testing.T) {
	t.Parallel()

	makefile := read(t, "../Makefile")
	require.Contains(t, makefile, "\nGOBUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'\n")
	require.Contains(t, makefile, "\n\t$(GOBUILD) -o bin/ ./cmd/...\n", "make build, which the Dockerfile calls")
	require.Contains(t, makefile, "$(GOBUILD) -o bin/linux-$$architecture/ ./cmd/...;", "make image")
}

// TestBuildContext checks that .dockerignore includes all sources of the programs.
func TestBuildContext(t *testing.T) {
	t.Parallel()

	command := exec.CommandContext(t.Context(), "go", "list", "-C", "..", "-deps", "-f",
		"{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", "./cmd/...")
	output, err := command.Output()
	require.NoError(t, err)

	packages := strings.Fields(string(output))
	require.NotEmpty(t, packages)

	let := strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(read(t, "../.dockerignore"), ""))
	require.Subset(t, let, []string{"*", "!go.mod", "!go.sum", "!Makefile", "!tools.mk", "!VERSION"})

	for _, name := range packages {
		if "https://"+name == source { // the package beside VERSION
			require.Subset(t, let, []string{"!version.go", "!VERSION"})

			continue
		}

		folder, _, _ := strings.Cut(strings.TrimPrefix(name, strings.TrimPrefix(source, "https://")+"/"), "/")
		require.Contains(t, let, "!"+folder, name)
	}
}

// TestCompilerIsNewEnough compares the Dockerfile's compiler with the version in go.mod: the golang
// image does not download another one.
func TestCompilerIsNewEnough(t *testing.T) {
	t.Parallel()

	used := regexp.MustCompile(`golang:(\d+\.\d+\.\d+) `).FindStringSubmatch(of(stages(t)[0], "FROM")[0])
	asked := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, "../go.mod"))

	require.NotNil(t, used, "an exact version")
	require.NotNil(t, asked)
	require.GreaterOrEqual(t, version.Compare("go"+used[1], "go"+asked[1]), 0)
	require.Equal(t, version.Lang("go"+asked[1]), version.Lang("go"+used[1]))
}

func read(t *testing.T, path string) string {
	t.Helper()

	text, err := os.ReadFile(path)
	require.NoError(t, err)

	return string(text)
}
