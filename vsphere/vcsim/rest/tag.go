package rest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/wire"
)

const (
	restTagging     = rest.Path + "/com/vmware/cis/tagging"
	restAssociation = restTagging + "/tag-association"
)

// tagged is an object reference in the REST API's form.
type tagged struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// attachment is a call that attaches tags to one or more objects.
type attachment struct {
	Object  *tagged  `json:"object_id,omitempty"`
	Objects []tagged `json:"object_ids,omitempty"`
	Tags    []string `json:"tag_ids,omitempty"`
}

// attachmentOf parses a request without consuming its body; nil if it is another call.
func attachmentOf(r *http.Request) (*attachment, error) {
	if !strings.HasPrefix(r.URL.Path, restAssociation) || !strings.HasPrefix(r.URL.Query().Get("~action"), "attach") {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := new(attachment)
	if err := json.Unmarshal(body, call); err != nil {
		return nil, err
	}
	if _, id, ok := strings.Cut(r.URL.Path, "/id:"); ok {
		call.Tags = []string{id}
	}
	if call.Object != nil {
		call.Objects = append(call.Objects, *call.Object)
	}
	return call, nil
}

// attach rejects tags that an object cannot have, which the simulator does not.
//
// [doc] com.vmware.cis.tagging.TagAssociation.attach: unauthorized without the privilege to read the object, also for a missing or hidden
// one; invalid_argument if the tag is not eligible for the object: its category is for other types, or it allows one tag and the object has
// another. A call with several tags lists the ineligible ones in its errors, whose ids are not documented.
func (a *API) attach(w http.ResponseWriter, r *http.Request, call *attachment) {
	a.attaching.Lock()
	defer a.attaching.Unlock()
	for _, o := range call.Objects {
		ref := types.ManagedObjectReference{Type: o.Type, Value: o.ID}
		if a.objects.Get(ref) == nil || a.rights.Hides(ref) {
			Refuse(w, &types.NoPermission{Object: &ref, PrivilegeId: "System.Read"})
			return
		}
	}
	var eligible []string
	var ineligible tags.BatchErrors
	for _, id := range call.Tags {
		if slices.ContainsFunc(call.Objects, func(o tagged) bool { return !a.eligible(id, o) }) {
			ineligible = append(ineligible, tags.BatchError{Type: "cis.tagging.invalidArgument.error", Message: "Tag " + id + " cannot be attached to the object."})
			continue
		}
		eligible = append(eligible, id)
	}
	switch {
	case len(ineligible) == 0:
		a.pass(w, r)
	case !strings.HasSuffix(r.URL.Path, "/tag-association"): // one tag
		Refuse(w, &types.InvalidArgument{InvalidProperty: "tag_id"})
	default:
		var done struct {
			Errors tags.BatchErrors `json:"error_messages"`
		}
		a.ask(http.MethodPost, r.URL.RequestURI(), attachment{Object: call.Object, Tags: eligible}, &done)
		answerJSON(w, map[string]any{"success": false, "error_messages": append(done.Errors, ineligible...)})
	}
}

// eligible reports whether an object may have a tag. A missing tag is left for the simulator to reject.
func (a *API) eligible(id string, o tagged) bool {
	var tag, other tags.Tag
	var category tags.Category
	a.ask(http.MethodGet, restTagging+"/tag/id:"+id, nil, &tag)
	a.ask(http.MethodGet, restTagging+"/category/id:"+tag.CategoryID, nil, &category)
	if len(category.AssociableTypes) > 0 && !slices.Contains(category.AssociableTypes, o.Type) {
		return false
	}
	if category.Cardinality != "SINGLE" {
		return true
	}
	var has []string
	a.ask(http.MethodPost, restAssociation+"?~action=list-attached-tags", attachment{Object: &o}, &has)
	return !slices.ContainsFunc(has, func(had string) bool {
		a.ask(http.MethodGet, restTagging+"/tag/id:"+had, nil, &other)
		return had != id && other.CategoryID == tag.CategoryID
	})
}

// ask calls the simulator; out is unchanged if the object does not exist.
func (a *API) ask(method, uri string, body, out any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return
	}
	r, err := http.NewRequest(method, uri, bytes.NewReader(encoded))
	if err != nil {
		return
	}
	reply := wire.NewAnswer()
	a.pass(reply, r)
	if reply.Status == http.StatusOK {
		_ = json.Unmarshal(reply.Body.Bytes(), &struct {
			Value any `json:"value"`
		}{out})
	}
}
