package world

import (
	"bufio"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

//go:embed testdata/found
var found embed.FS

// Each file is a life that once broke an invariant, shrunk: the seed of its setting, and one event per line. The file is named after the
// fault, which also has a test in the package where it was fixed.
func TestLivesThatOnceFailedPass(t *testing.T) {
	files, err := found.ReadDir("testdata/found")
	must.Succeed(t, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(file.Name(), ".txt"), func(t *testing.T) {
			text, err := found.ReadFile(path.Join("testdata/found", file.Name()))
			must.Succeed(t, err)
			seed, events, err := eventsIn(string(text))
			must.Succeed(t, err)
			set := settingOf(seed)
			if o := run(t, set, events, false); o.wrong != "" {
				t.Errorf("%s\n%+v\n%s", o.wrong, describe(&set), run(t, set, events, true).history)
			}
		})
	}
}

// eventsIn reads a life: "seed <n>", and then its events as a history has them.
func eventsIn(text string) (seed uint64, events []event, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Scan()
	if _, err = fmt.Sscanf(lines.Text(), "seed %d", &seed); err != nil {
		return 0, nil, fmt.Errorf("%q: %w", lines.Text(), err)
	}
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		e := event{at: len(events)}
		name := max(0, len(words)-2)
		if _, err = fmt.Sscan(strings.Join(words[name:], " "), &e.a, &e.b); err != nil {
			return 0, nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == strings.Join(words[:name], " ") })
		if i < 0 {
			return 0, nil, fmt.Errorf("%q is not an event", lines.Text())
		}
		e.kind = kinds[i]
		events = append(events, e)
	}
	return seed, events, lines.Err()
}
