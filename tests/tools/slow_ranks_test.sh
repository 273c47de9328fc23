#!/usr/bin/env bash
# Recipes of every kind on 2, 3 and 4 ranks against one process; kills on four, resumes on three.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
recipe() { # RANKS NAME [OPTION...]: 0 ranks are one process without a launcher
  local command=("$xrun")
  [ "$1" = 0 ] || command=("$xrun" launch -n "$1")
  "${command[@]}" "$root/recipes/$2.lua" --set model=tiny --threads 1 "${@:3}"
}
compare() { # NAME [OPTION...]
  rm -rf "$1"-*
  recipe 0 "$@" --run "$1-one" >"$1.log" || { cat "$1.log"; fail "$1 in one process"; }
  for ranks in 2 3; do
    recipe $ranks "$@" --run "$1-$ranks" >"$1.log" 2>&1 || { cat "$1.log"; fail "$1 on $ranks"; }
    same_run "$1-one" "$1-$ranks"
  done
}
pairs="--set data.1.path=$root/tests/data/pairs.jsonl --set answers=0"
sums="--set template=chatml --set sampling.max_tokens=6 --set data.1.path=$root/recipes/data/sums.jsonl"
compare dpo $pairs --set steps=8 --set batch.pairs=5 --set batch.max_tokens=240
# A key that does not exist is refused by both ranks before anything loads.
wants 2 'betta' recipe 2 dpo $pairs --set betta=1 --run wrong
[ ! -e wrong ] || fail "a refused run leaves its folder"
compare grpo $sums --set batch.prompts=3 --set batch.max_tokens=80 --set steps=3
compare dapo $sums --set batch.groups=3 --set batch.max_tokens=80 --set steps=3
compare ppo $sums --set batch.prompts=3 --set batch.max_tokens=80 --set steps=2 \
  --set updates.epochs=2 --set updates.groups=2
compare sft --set data.1.path="$root/recipes/data/chats.jsonl" \
  --set data.2.path="$root/recipes/data/tasks.jsonl" --set template=chatml \
  --set batch.sequences=9 --set batch.max_tokens=900 --set steps=4 --set valid.every=2
"$xrun" init-model moe --preset moe-8 --tokenizer "$root/tests/data/tiny_tokenizer" --layers 2 \
  --hidden 32 --heads 2 --kv-heads 1 >/dev/null
mv tiny dense && mv moe tiny
compare dpo $pairs --set steps=4 --set batch.pairs=5 --set batch.max_tokens=240 --set moe.aux=0.01 \
  --set seed=1
rm -rf tiny && mv dense tiny

# One of four ranks is killed in the middle of a step; what three ranks resume ends as one process.
kills="$pairs --set batch.pairs=5 --set batch.max_tokens=240 --set save.every=2"
recipe 0 dpo $kills --set steps=30 --run whole >/dev/null
killed=0
for trial in 1 2 3; do
  recipe 4 dpo $kills --set steps=30 --run killed >killed.log 2>&1 &
  launcher=$!
  for _ in $(seq 300); do
    [ -e killed/checkpoints/latest ] && break
    sleep 0.05
  done
  sleep 0.$((trial * 3))
  victim=$(pgrep -P "$(pgrep -P $launcher | head -1 || echo $launcher)" | sed -n "${trial}p" || true)
  [ -n "$victim" ] || victim=$(pgrep -P $launcher | sed -n "${trial}p" || true)
  [ -z "$victim" ] || kill -9 "$victim"
  if wait $launcher; then # it had ended before
    rm -rf killed
    continue
  fi
  killed=$((killed + 1))
  recipe 3 dpo --run killed --resume >killed.log 2>&1 || { cat killed.log; fail "3 do not resume"; }
  same_run whole killed
  rm -rf killed
done
[ $killed -gt 0 ] || fail "no run was killed"
