package vcfault

import (
	"context"
	"errors"
	"net/url"
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"
)

func TestOverloadIsWhatVCenterSaysAndNotWhatOthersDo(t *testing.T) {
	for _, c := range []struct {
		fault       vim.BaseMethodFault
		clone, step string
	}{
		{&vim.TooManyConcurrentNativeClones{}, "TooManyConcurrentNativeClones", "TooManyConcurrentNativeClones"},
		{&vim.Timedout{}, "Timedout", "Timedout"},
		{&vim.HostCommunication{}, "HostCommunication", "HostCommunication"},
		{&vim.HostNotConnected{}, "", ""},
		{&vim.TaskInProgress{}, "TaskInProgress", ""},
		{&vim.NoDiskSpace{}, "", ""},
	} {
		err := byCall(c.fault, "the message")
		if clone, step := Overload(err, true), Overload(err, false); clone != c.clone || step != c.step {
			t.Errorf("%T: %q of a clone, %q of another step; want %q and %q", c.fault, clone, step, c.clone, c.step)
		}
		if Unanswered(err) {
			t.Errorf("%T is an answer", c.fault)
		}
	}
	for _, err := range []error{context.DeadlineExceeded, &url.Error{Op: "Post", URL: "https://vc/sdk", Err: errors.New("503 Service Unavailable")}} {
		if !Unanswered(err) || Overload(err, true) != "" {
			t.Errorf("%v is no answer", err)
		}
	}
	if Unanswered(nil) || Overload(nil, true) != "" {
		t.Error("success is an answer")
	}
}
