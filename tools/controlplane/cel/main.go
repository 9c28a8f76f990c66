// Answers of the real API server's CEL environment for crates/cel/tests/answers.rs: for each expression its value, its error
// and what it cost.
//
//	cd tools/controlplane
//	go run ./cel ../../crates/cel/tests/data > ../../crates/cel/tests/data/answers.jsonl
//
// The expressions are the lines of expressions.txt in that folder, and those of the public conformance tests (module
// cel.dev/expr) that need no bindings, no container and no messages of protocol buffers. Variables are the members of
// variables.json, without a declared type, and `authorizer`, which allows whoever gets something named "allowed".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	test "cel.dev/expr/conformance/test"
	_ "cel.dev/expr/conformance/proto2"
	_ "cel.dev/expr/conformance/proto3"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/encoding/prototext"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// One line of the output. Cost counts only if there is a value or an error.
type answer struct {
	Expression string  `json:"expression"`
	Type       string  `json:"type,omitempty"`
	Value      string  `json:"value,omitempty"`
	Error      string  `json:"error,omitempty"`
	Refused    string  `json:"refused,omitempty"`
	Cost       *uint64 `json:"cost,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: cel FOLDER"))
	}
	folder := os.Args[1]
	variables := map[string]any{}
	text, err := os.ReadFile(filepath.Join(folder, "variables.json"))
	must(err)
	must(utiljson.Unmarshal(text, &variables))

	options := []cel.EnvOption{cel.Variable("authorizer", library.AuthorizerType)}
	for name := range variables {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 36)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        options,
	})
	must(err)
	env := set.StoredExpressionsEnv()
	variables["authorizer"] = library.NewAuthorizerVal(&user.DefaultInfo{Name: "someone"}, authorizer.AuthorizerFunc(decide))

	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	seen := map[string]bool{}
	for _, expression := range append(own(folder), conformance()...) {
		if !seen[expression] {
			seen[expression] = true
			must(encoder.Encode(evaluate(env, expression, variables)))
		}
	}
}

func own(folder string) []string {
	text, err := os.ReadFile(filepath.Join(folder, "expressions.txt"))
	must(err)
	var expressions []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line != "" && !strings.HasPrefix(line, "#") {
			expressions = append(expressions, line)
		}
	}
	return expressions
}

func conformance() []string {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "cel.dev/expr").Output()
	must(err)
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "tests/simple/testdata/*.textproto"))
	must(err)
	slices.Sort(paths)
	var expressions []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(err)
		file := &test.SimpleTestFile{}
		must(prototext.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, file))
		for _, section := range file.Section {
			for _, t := range section.Test {
				needsMore := t.Container != "" || len(t.TypeEnv) > 0 || len(t.Bindings) > 0 || t.DisableMacros
				needsMore = needsMore || strings.Contains(t.Expr, "TestAllTypes") || strings.Contains(t.Expr, "google.")
				if !needsMore {
					expressions = append(expressions, t.Expr)
				}
			}
		}
	}
	return expressions
}

func decide(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	words := []string{a.GetUser().GetName(), a.GetVerb(), a.GetPath(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(),
		a.GetSubresource(), a.GetNamespace(), a.GetName()}
	if fields, err := a.GetFieldSelector(); err != nil {
		words = append(words, "bad fields")
	} else {
		for _, f := range fields {
			words = append(words, f.Field+string(f.Operator)+f.Value)
		}
	}
	if labels, err := a.GetLabelSelector(); err != nil {
		words = append(words, "bad labels")
	} else {
		for _, l := range labels {
			words = append(words, l.String())
		}
	}
	reason := strings.Join(words, " ")
	switch {
	case strings.Contains(reason, "allowed"):
		return authorizer.DecisionAllow, reason, nil
	case strings.Contains(reason, "broken"):
		return authorizer.DecisionNoOpinion, reason, errors.New("the authorizer is broken")
	case strings.Contains(reason, "denied"):
		return authorizer.DecisionDeny, reason, nil
	default:
		return authorizer.DecisionNoOpinion, reason, nil
	}
}

func evaluate(env *cel.Env, expression string, variables map[string]any) answer {
	result := answer{Expression: expression}
	ast, issues := env.Compile(expression)
	if issues != nil {
		result.Refused = issues.String()
		return result
	}
	result.Type = ast.OutputType().String()
	program, err := env.Program(ast)
	if err != nil {
		result.Refused = "program instantiation failed: " + err.Error()
		return result
	}
	value, details, err := program.Eval(variables)
	if details != nil {
		result.Cost = details.ActualCost()
	}
	if err != nil {
		result.Error = err.Error()
		return result
	}
	result.Value = show(value)
	return result
}

// show spells a value as crates/cel does.
func show(value ref.Val) string {
	switch v := value.(type) {
	case types.Null:
		return "null"
	case types.Bool, types.Int:
		return fmt.Sprint(v.Value())
	case types.Uint:
		return fmt.Sprintf("%du", uint64(v))
	case types.Double:
		return fmt.Sprint(v.ConvertToType(types.StringType).Value()) + "d"
	case types.String:
		text, err := json.Marshal(string(v))
		must(err)
		return unescaped(string(text))
	case types.Bytes:
		return fmt.Sprintf("b%x", []byte(v))
	case types.Timestamp, types.Duration:
		return fmt.Sprintf("%s(%s)", v.Type().TypeName(), v.ConvertToType(types.StringType).Value())
	case *types.Type:
		return "type " + v.TypeName()
	case *types.Optional:
		if !v.HasValue() {
			return "none"
		}
		return "some(" + show(v.GetValue()) + ")"
	case traits.Mapper:
		var entries []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries = append(entries, show(key)+": "+show(v.Get(key)))
		}
		slices.Sort(entries)
		return "{" + strings.Join(entries, ", ") + "}"
	case traits.Lister:
		var elements []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			elements = append(elements, show(it.Next()))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case apiservercel.Quantity:
		return "quantity " + v.Quantity.String()
	case apiservercel.IP:
		return "ip " + v.Addr.String()
	case apiservercel.CIDR:
		return "cidr " + v.Prefix.String()
	case apiservercel.URL:
		return "url " + v.URL.String()
	case apiservercel.Semver:
		return "semver " + v.Version.String()
	case *apiservercel.Quantity:
		return "quantity " + v.Quantity.String()
	case apiservercel.Format:
		return "format " + v.Name
	default:
		return "a " + v.Type().TypeName()
	}
}

func unescaped(text string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(text)
}

func must(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
