package test

import (
	"os"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// The release's token can write releases and packages. So only the steps that write them have the token, and no step has it that builds or runs
// downloaded code.
func TestOnlyTheStepsOfAReleaseThatNeedItHaveAToken(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../.github/workflows/release.yaml")
	must.Succeed(t, err)
	before, steps, _ := strings.Cut(string(text), "\n    steps:\n")
	if strings.Contains(before, "github.token") || strings.Contains(before, "secrets.") {
		t.Error("all steps have a token")
	}
	using := 0
	for _, step := range strings.Split("\n"+steps, "\n      - ")[1:] {
		has := strings.Contains(step, "github.token") || strings.Contains(step, "secrets.")
		needs := strings.Contains(step, "gh api") || strings.Contains(step, "make publish") || strings.Contains(step, "gh release")
		if has != needs {
			t.Errorf("has a token: %t, needs one: %t: %s", has, needs, step)
		}
		if needs {
			using++
		}
	}
	if using != 3 {
		t.Errorf("%d steps need a token; want 3", using)
	}
}
