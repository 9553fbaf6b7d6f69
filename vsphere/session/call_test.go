package session

import (
	"context"
	"testing"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestAnAnswerThatLacksARequiredPropertyIsReported(t *testing.T) {
	task := types.ManagedObjectReference{Type: "Task", Value: "task-1"}
	for lack, res := range map[string]soap.HasFault{
		"CloneVM_TaskResponse":     &methods.CloneVM_TaskBody{},
		"Returnval":                &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{}},
		"SetFieldResponse":         &methods.SetFieldBody{},
		"CurrentTimeResponse":      &methods.CurrentTimeBody{},
		"WaitForUpdatesExResponse": &methods.WaitForUpdatesExBody{},
	} {
		if got := lacking(res); got != lack {
			t.Errorf("%T lacks %q, not %q", res, got, lack)
		}
	}
	for _, res := range []soap.HasFault{
		&methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: task}},
		&methods.WaitForUpdatesExBody{Res: &types.WaitForUpdatesExResponse{}}, // no updates
		&methods.FindChildBody{Res: &types.FindChildResponse{}},               // no such child
		&methods.SetFieldBody{Res: &types.SetFieldResponse{}},                 // SetField returns nothing
		&methods.RetrievePropertiesExBody{Res: &types.RetrievePropertiesExResponse{}},
		&methods.RecommendDatastoresBody{Res: &types.RecommendDatastoresResponse{}}, // no recommendation, and no reason
	} {
		if got := lacking(res); got != "" {
			t.Errorf("%T lacks %q", res, got)
		}
	}
}

func TestASearchEndsThoughAFolderContainsItself(t *testing.T) {
	calls := 0
	s := &search{next: nothing{&calls}, most: searchMost}
	for range searchMost {
		must.Succeed(t, s.RoundTrip(t.Context(), &methods.FindChildBody{}, &methods.FindChildBody{}))
	}
	err := s.RoundTrip(t.Context(), &methods.FindChildBody{}, &methods.FindChildBody{})
	if vctest.ReasonOf(t, err) != vcfault.ReasonNotVCenterAPI || calls != searchMost {
		t.Errorf("after %d calls: %v", calls, err)
	}
}

type nothing struct{ calls *int }

func (n nothing) RoundTrip(context.Context, soap.HasFault, soap.HasFault) error {
	*n.calls++
	return nil
}
