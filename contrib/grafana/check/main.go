// Command check reads dashboards by the schema that Grafana publishes: every field that it does not know, that is missing or that has
// another type is an error.
//
// Usage: go run . FILE...
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	failed := false
	for _, path := range os.Args[1:] {
		panels, err := check(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			failed = true
			continue
		}
		fmt.Printf("%s: %d panels\n", path, panels)
	}
	if failed || len(os.Args) < 2 {
		os.Exit(1)
	}
}

func check(path string) (panels int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var board dashboard.Dashboard
	for _, err := range []error{board.UnmarshalJSONStrict(text), board.Validate()} {
		// The library's list of errors may be empty.
		if err != nil && err.Error() != "" {
			return 0, err
		}
	}
	return len(board.Panels), nil
}
