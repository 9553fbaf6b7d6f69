package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// Flux, Helm and other tools use kstatus: a group that waits for an operator must be Failed, and a group that the server works on
// InProgress.
func TestToolsDistinguishAStoppedGroupFromOneInProgress(t *testing.T) {
	a, err := answers()
	must.Succeed(t, err)
	wanted := map[v1alpha1.Phase]kstatus.Status{v1alpha1.PhaseRunning: kstatus.CurrentStatus, v1alpha1.PhasePending: kstatus.InProgressStatus,
		v1alpha1.PhaseError: kstatus.FailedStatus}
	seen := map[kstatus.Status]int{}
	for _, text := range a.statuses {
		status := parse(t, text)
		generation, _, err := unstructured.NestedInt64(status, "observedGeneration")
		must.Succeed(t, err)
		object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		computed := func(generation int64) kstatus.Status {
			t.Helper()
			object.SetGeneration(generation)
			result, err := kstatus.Compute(object)
			must.Succeed(t, err)
			seen[result.Status]++
			return result.Status
		}
		phase, _, _ := unstructured.NestedString(status, "phase")
		if got, want := computed(generation), wanted[v1alpha1.Phase(phase)]; got != want {
			t.Errorf("%s is %s for kstatus, not %s: %s", phase, got, want, text)
		}
		if got := computed(generation + 1); got != kstatus.InProgressStatus {
			t.Errorf("%s although the spec was edited since: %s", got, text)
		}
	}
	for _, status := range []kstatus.Status{kstatus.CurrentStatus, kstatus.InProgressStatus, kstatus.FailedStatus} {
		if seen[status] == 0 {
			t.Errorf("no answer has the kstatus %s", status)
		}
	}
}
