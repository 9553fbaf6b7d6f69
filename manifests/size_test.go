package manifests_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/docs"
)

// size is a row of the table of docs/install.md.
type size struct {
	peak, fullRead string // as docs/figures.md has them
	goMemLimit     string
	resources      corev1.ResourceRequirements
}

// sizes are the rows, by the number of VMs.
func sizes(t *testing.T) map[string]size {
	t.Helper()
	all := map[string]size{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9,]+) \| (\d+ MiB) \| (\w+), (\w+) \| (\w+) \| (\w+) \| ([0-9.]+ s) \|`).FindAllStringSubmatch(document(t, "install.md"), -1) {
		all[row[1]] = size{row[2], row[7], row[4], corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(row[3])},
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(row[5]), corev1.ResourceCPU: resource.MustParse(row[6])},
		}}
	}
	if len(all) != 5 {
		t.Fatalf("docs/install.md has %d sizes", len(all))
	}
	return all
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := docs.Pages.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The benchmark measures with the limits of the table (limitFor in test/bench).
func TestEachSizeHasRoomForItsPeak(t *testing.T) {
	measured := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9,]+) \| (\d+ MiB) \|.*\|$`).FindAllStringSubmatch(document(t, "figures.md"), -1) {
		measured[row[1]] = strings.Split(row[0], " | ")
	}
	for vms, s := range sizes(t) {
		peak, err := strconv.ParseInt(strings.TrimSuffix(s.peak, " MiB"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		request, limit := s.resources.Requests.Memory().Value(), s.resources.Limits.Memory().Value()
		if peak<<20 > request || request > limit {
			t.Errorf("%s VMs: at most %s are used, %s requested, and the limit is %s", vms, s.peak, s.resources.Requests.Memory(), s.resources.Limits.Memory())
		}
		if goal := resource.MustParse(strings.TrimSuffix(s.goMemLimit, "B")); goal.Value() > limit*9/10 {
			t.Errorf("%s VMs: GOMEMLIMIT %s is more than nine tenths of %s", vms, s.goMemLimit, s.resources.Limits.Memory())
		}
		if row := measured[vms]; len(row) < 6 || row[1] != s.peak || row[5] != s.fullRead {
			t.Errorf("%s VMs: %s and %s for a full read are not what docs/figures.md has: %v", vms, s.peak, s.fullRead, row)
		}
	}
}

// As installed, the server is for up to 10,000 VMs.
func TestTheManifestsAndTheChartHaveTheSizeThatTheDocumentsSay(t *testing.T) {
	want := sizes(t)["10,000"]
	var chart struct {
		Resources  corev1.ResourceRequirements
		GoMemLimit string
	}
	values, err := os.ReadFile("../charts/vmgroup/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(values, &chart); err != nil {
		t.Fatal(err)
	}
	_, _, container := pod(t, build(t, "root"))
	installed := ""
	for _, e := range container.Env {
		if e.Name == "GOMEMLIMIT" {
			installed = e.Value
		}
	}
	for what, is := range map[string]size{"the manifests": {goMemLimit: installed, resources: container.Resources}, "the chart": {goMemLimit: chart.GoMemLimit, resources: chart.Resources}} {
		r := is.resources
		if is.goMemLimit != want.goMemLimit || !r.Limits.Memory().Equal(*want.resources.Limits.Memory()) || !r.Requests.Memory().Equal(*want.resources.Requests.Memory()) ||
			!r.Requests.Cpu().Equal(*want.resources.Requests.Cpu()) || !r.Limits.Cpu().IsZero() {
			t.Errorf("%s have %v and GOMEMLIMIT %s, want %v and %s", what, r, is.goMemLimit, want.resources, want.goMemLimit)
		}
	}
}
