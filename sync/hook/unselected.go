package hook

import (
	"encoding/json"
	"net/http"
	"strconv"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// received is a decoded request. For a finalize of a group that is not being deleted it also has the status as received,
// including fields that this version does not know, because the answer returns it unchanged.
type received struct {
	plan.Call
	status json.RawMessage
}

// statusOf returns the text of the parent's status in a request; {} if it has none.
func statusOf(body []byte) (json.RawMessage, error) {
	var r struct {
		Parent struct {
			Status json.RawMessage `json:"status"`
		} `json:"parent"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	if len(r.Parent.Status) == 0 || string(r.Parent.Status) == "null" {
		return json.RawMessage("{}"), nil
	}
	return r.Parent.Status, nil
}

// letGoResponse is a FinalizeResponse that leaves the status as it was received.
type letGoResponse struct {
	Status             json.RawMessage   `json:"status"`
	Children           []json.RawMessage `json:"children"`
	ResyncAfterSeconds float64           `json:"resyncAfterSeconds"`
	Finalized          bool              `json:"finalized"`
}

// letGo answers for a group of which neither vCenter nor this server has anything, so that Metacontroller removes its finalizer.
func (s *server) letGo(w http.ResponseWriter, call received, result *plan.Result) {
	s.answer(w, call.Call, result, func(out SyncResponse) any {
		return letGoResponse{call.status, out.Children, out.ResyncAfterSeconds, result.Finalized}
	})
}

// refuseCall refuses a call. On 422 Metacontroller shows the message as an Event of the group; on 429 it shows nothing and calls again
// after Retry-After seconds. In both cases it changes neither status nor children.
func refuseCall(w http.ResponseWriter, why *plan.Refusal) {
	if why.Retry == 0 {
		refuse(w, http.StatusUnprocessableEntity, why.Message)
		return
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(why.Retry.Seconds())))
	refuse(w, http.StatusTooManyRequests, why.Message)
}
