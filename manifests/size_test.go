package manifests_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/docs"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// size is a row of the table of docs/install.md.
type size struct {
	goMemLimit string
	resources  corev1.ResourceRequirements
}

// sizes are the rows, by the number of VMs.
func sizes(t *testing.T) map[string]size {
	t.Helper()
	all := map[string]size{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9,]+) \| (\w+), (\w+) \| (\w+) \| (\w+) \|`).FindAllStringSubmatch(document(t, "install.md"), -1) {
		all[row[1]] = size{row[3], corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(row[2])},
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(row[4]), corev1.ResourceCPU: resource.MustParse(row[5])},
		}}
	}
	if len(all) != 3 {
		t.Fatalf("docs/install.md has %d sizes; want 3", len(all))
	}
	return all
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := docs.Pages.ReadFile(name)
	must.Succeed(t, err)
	return string(text)
}

// The benchmark measures under the memory limits of the table (limitFor in test/bench).
func TestEachSizeHasRoomForItsPeak(t *testing.T) {
	measured := map[string]int64{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9,]+) \| (\d+) MiB \|.*\|$`).FindAllStringSubmatch(document(t, "figures.md"), -1) {
		mib, err := strconv.ParseInt(row[2], 10, 64)
		must.Succeed(t, err)
		measured[row[1]] = mib << 20
	}
	for vms, s := range sizes(t) {
		request, limit := s.resources.Requests.Memory().Value(), s.resources.Limits.Memory().Value()
		if peak := measured[vms]; peak == 0 || peak > request || request > limit {
			t.Errorf("%s VMs: docs/figures.md has a peak of %d, %s are requested, and the limit is %s", vms, peak, s.resources.Requests.Memory(), s.resources.Limits.Memory())
		}
		if goal := resource.MustParse(strings.TrimSuffix(s.goMemLimit, "B")); goal.Value() > limit*9/10 {
			t.Errorf("%s VMs: GOMEMLIMIT %s is more than nine tenths of %s", vms, s.goMemLimit, s.resources.Limits.Memory())
		}
	}
}

// The chart sets nine tenths of its limit; TestTheMemoryLimitOfTheChartIsAlsoGos (release) renders it.
//
// The default install is for up to 10,000 VMs.
func TestTheManifestsAndTheChartHaveTheSizeThatTheDocumentsSay(t *testing.T) {
	want := sizes(t)["10,000"]
	var chart struct {
		Resources corev1.ResourceRequirements
	}
	values, err := os.ReadFile("../charts/vmgroup/values.yaml")
	must.Succeed(t, err)
	must.Succeed(t, yaml.Unmarshal(values, &chart))
	_, _, container := pod(t, build(t, "root"))
	installed := ""
	for _, e := range container.Env {
		if e.Name == "GOMEMLIMIT" {
			installed = e.Value
		}
	}
	for what, is := range map[string]size{"the manifests": {goMemLimit: installed, resources: container.Resources}, "the chart": {goMemLimit: fmt.Sprintf("%dMiB", chart.Resources.Limits.Memory().Value()*9/10>>20), resources: chart.Resources}} {
		r := is.resources
		if is.goMemLimit != want.goMemLimit || !r.Limits.Memory().Equal(*want.resources.Limits.Memory()) || !r.Requests.Memory().Equal(*want.resources.Requests.Memory()) ||
			!r.Requests.Cpu().Equal(*want.resources.Requests.Cpu()) || !r.Limits.Cpu().IsZero() {
			t.Errorf("%s have %v and GOMEMLIMIT %s, want %v and %s", what, r, is.goMemLimit, want.resources, want.goMemLimit)
		}
	}
}
