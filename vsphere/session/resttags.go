package session

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vapi/tags"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// BatchTags attaches tags to a VM, or detaches them. Both are idempotent, and neither is atomic.
//
// govmomi's AttachMultipleTagsToObject does the same, but panics if vCenter reports a failure without a reason.
func BatchTags(ctx context.Context, rs *RESTSession, action string, a plan.Action, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	type object struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	request := struct {
		Object object   `json:"object_id"`
		Tags   []string `json:"tag_ids"`
	}{object{VMType, a.MoRef}, ids}
	var result struct {
		Success bool             `json:"success"`
		Errors  tags.BatchErrors `json:"error_messages"`
	}
	if err := rs.Do(ctx, rs.Resource(associationPath).WithAction(action).Request(http.MethodPost, request), &result); err != nil {
		return err
	}
	if result.Success {
		return nil
	}
	var words []string
	for _, e := range result.Errors {
		if e.Type == tagGone {
			return ErrTagGone
		}
		words = append(words, e.Message)
	}
	if len(words) == 0 {
		words = []string{"it does not say why."}
	}
	return vcfault.ForOperator(vcfault.ReasonTagRefused, "vCenter refuses the tags of %s: %s", a.Key, vcfault.Steady(strings.Join(slices.Compact(words), " ")))
}

const (
	// VMType is the managed object type of the objects that are tagged.
	VMType = "VirtualMachine"
	// associationPath is the path of calls that attach and detach tags. Those of many tags at once exist since vSphere 6.5.
	associationPath = "/com/vmware/cis/tagging/tag-association"
	// AttachTags and DetachTags are the actions of BatchTags.
	AttachTags = "attach-multiple-tags-to-object"
	DetachTags = "detach-multiple-tags-from-object"
	// tagGone is the error of these actions for a tag that does not exist.
	tagGone = "cis.tagging.objectNotFound.error"
)

// ErrTagGone means that a tag was removed after it was found.
var ErrTagGone = errors.New("a tag is gone")
