package compile

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBuild_LeavesNothingWhenInterrupted interrupts the go command while it
// compiles the standard library.
func TestBuild_LeavesNothingWhenInterrupted(t *testing.T) { //nolint:paralleltest // sets environment variables
	root, temporary := t.TempDir(), t.TempDir()
	work := filepath.Join(root, "bin", ".go-build-*")
	t.Setenv("GOCACHE", t.TempDir()) // forces a compilation
	t.Setenv("TMPDIR", temporary)
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module x\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "main.go"), []byte("package compile\n\nimport _ \"net/http\"\n\nfunc main() {}\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	built := make(chan error, 1)
	go func() {
		built <- Build(ctx, io.Discard, Program{Name: "x", Root: root, Packages: ".", Output: "bin/x"})
	}()
	folders := func() []string {
		var all []string
		for _, parent := range []string{temporary, work} {
			found, err := filepath.Glob(filepath.Join(parent, "go-build*", "*"))
			require.NoError(t, err)
			all = append(all, found...)
		}
		return all
	}
	require.Eventually(t, func() bool { return len(folders()) > 0 }, time.Minute, 10*time.Millisecond, "go has a folder for its work")
	cancel()
	require.ErrorIs(t, <-built, context.Canceled)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Empty(t, folders())
}
